// The compact graph of the engine at one event: what the states hold, and the ways that are matches.
import type { Compact, CompactNode, Step } from "./api";
import { colour, el, number, svg } from "./dom";

const WIDE = 54, TALL = 40, TOP = 44, LEFT = 30;
interface Place { x: number; y: number }

export class CompactGraph {
  readonly box = el("div", { class: "compact", tabindex: "0", role: "region", "aria-label": "The compact graph" });

  constructor() {
    this.box.hidden = true;
  }

  show(graph: Compact | null, at: number, events: Step[]): void {
    this.box.hidden = !graph;
    if (!graph) return;
    const title = el("h2", {}, "Compact graph");
    if (graph.note) return this.box.replaceChildren(title, el("p", { class: "muted" }, graph.note));
    const step = graph.steps[at];
    const held = step ? reached(graph.nodes, [...step.lists.flatMap((list) => list.nodes), ...step.roots]) : [];
    if (!step || !held.length) return this.box.replaceChildren(title, el("p", { class: "muted" }, "No state holds anything at this event."));
    if (held.length > graph.most) {
      return this.box.replaceChildren(title, el("p", { class: "muted" },
        `${number(held.length)} nodes are too many to draw here; up to ${graph.most} are drawn.`));
    }
    this.box.replaceChildren(title, draw(graph, at, held, events), legend());
  }
}

function legend(): HTMLElement {
  return el("p", { class: "muted" }, "⊥ a match begins. A circle is an event, after what its arrow leads to; ∪ is all that either arrow leads to. ",
    "Every way from “match” to a ⊥ is a match; the window has left what is pale.");
}

/** The nodes that can be reached from some, in the order in which they were made. */
function reached(nodes: CompactNode[], from: number[]): number[] {
  const found = new Set<number>(), waiting = [...from];
  while (waiting.length) {
    const id = waiting.pop()!;
    if (found.has(id)) continue;
    found.add(id);
    waiting.push(...nodes[id]!.children);
  }
  return [...found].sort((a, b) => a - b);
}

function draw(graph: Compact, at: number, held: number[], events: Step[]): SVGElement {
  const { nodes } = graph, step = graph.steps[at]!;
  const { places, columns, right } = place(nodes, held);
  const tags = [
    ...step.lists.map((list) => ({ name: `state ${list.states.join(", ")}`, nodes: list.nodes, match: false })),
    ...(step.roots.length ? [{ name: "match", nodes: step.roots, match: true }] : []),
  ];
  const rows = new Set<number>();
  const tagged = tags.map((tag) => ({ ...tag, x: right, y: TOP + (free(rows, mean(tag.nodes.map((id) => (places.get(id)!.y - TOP) / TALL))) + 0.5) * TALL })); // between the rows of nodes
  const wide = right + 16 + Math.max(60, ...tags.map((tag) => tag.name.length * 7));
  const tall = Math.max(...[...places.values(), ...tagged].map((p) => p.y)) + 30;
  const picture = svg("svg", { width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}`, role: "img",
    "aria-label": `The compact graph after this event: ${held.length} nodes` });
  picture.style.width = `min(${wide}px, max(100%, ${Math.round(0.65 * wide)}px))`; // a little smaller, if it fits then
  picture.style.height = "auto";
  for (const column of columns) {
    const event = events[column.step];
    const head = svg("text", { x: column.x, y: 14, class: "head" });
    head.textContent = event ? `${event.type || "event"} ${number(event.row)}` : "";
    if (column.step === at) head.classList.add("now");
    picture.append(head);
  }
  for (const id of held) nodes[id]!.children.forEach((child, k) => picture.append(edge(places.get(id)!, places.get(child)!, nodes[id]!.kind === "union" && k === 1)));
  for (const tag of tagged) for (const id of tag.nodes) picture.append(holding(tag, places.get(id)!));
  for (const id of held) picture.append(drawn(id, nodes[id]!, places.get(id)!, nodes[id]!.latest < step.bound));
  for (const tag of tagged) {
    const text = svg("text", { x: tag.x, y: tag.y + 4, class: tag.match ? "tag match" : "tag" });
    text.textContent = tag.name;
    picture.append(text);
  }
  return picture;
}

function drawn(id: number, node: CompactNode, { x, y }: Place, left: boolean): SVGElement {
  const group = svg("g", { class: `node ${node.kind}${left ? " left-behind" : ""}`, "data-node": id });
  const text = svg("text", { x, y: y + 4 });
  if (node.kind === "bottom") {
    text.textContent = "⊥";
    group.append(svg("rect", { x: x - 9, y: y - 9, width: 18, height: 18, rx: 3 }), text);
  } else if (node.kind === "union") {
    text.textContent = "∪";
    group.append(svg("circle", { cx: x, cy: y, r: 9 }), text);
  } else {
    const circle = svg("circle", { cx: x, cy: y, r: 13 });
    circle.style.stroke = colour(node.variable ?? -1);
    text.textContent = (node.binds ?? "").split(", ").pop()!.slice(0, 3);
    group.append(circle, text);
  }
  const title = svg("title");
  title.textContent = { bottom: "the start of a match", union: "all that either child has", output: `the event as ${node.binds}` }[node.kind];
  group.prepend(title);
  return group;
}

function edge(from: Place, to: Place, dashed: boolean): SVGElement {
  const x1 = from.x - 12, x2 = to.x + 13, bend = Math.max(14, (x1 - x2) / 2);
  return svg("path", { d: `M${x1} ${from.y}C${x1 - bend} ${from.y} ${x2 + bend} ${to.y} ${x2} ${to.y}`, class: dashed ? "edge second" : "edge" });
}

/** From the name of a state to a node that it holds: along a row that no node is in, then down or up to it. */
function holding(from: Place, to: Place): SVGElement {
  const x2 = to.x + 11, y2 = to.y + Math.sign(from.y - to.y) * 8, turn = Math.min(from.x - 8, x2 + 34);
  return svg("path", { d: `M${from.x - 8} ${from.y}L${turn} ${from.y}C${turn - 18} ${from.y} ${x2 + 14} ${y2} ${x2} ${y2}`, class: "edge held" });
}

/** Columns by the event that made a node, in the order of what they are made of; rows near their children. */
function place(nodes: CompactNode[], held: number[]): { places: Map<number, Place>; columns: { step: number; x: number }[]; right: number } {
  const layer = new Map<number, number>(), widths = new Map<number, number>();
  for (const id of held) {
    const node = nodes[id]!;
    const own = Math.max(0, ...node.children.filter((child) => nodes[child]!.step === node.step).map((child) => layer.get(child)! + 1));
    layer.set(id, own);
    widths.set(node.step, Math.max(widths.get(node.step) ?? 0, own + 1));
  }
  const begins = new Map<number, number>(), columns: { step: number; x: number }[] = [];
  let x = LEFT;
  for (const step of [...widths.keys()].sort((a, b) => a - b)) {
    const wide = Math.max(widths.get(step)! * WIDE, 78);
    begins.set(step, x);
    columns.push({ step, x: x - 16 });
    x += wide;
  }
  const taken = new Map<string, Set<number>>(), places = new Map<number, Place>();
  for (const id of held) {
    const node = nodes[id]!, slot = `${node.step} ${layer.get(id)}`;
    const rows = taken.get(slot) ?? new Set<number>();
    taken.set(slot, rows);
    const row = free(rows, mean(node.children.map((child) => (places.get(child)!.y - TOP) / TALL)));
    places.set(id, { x: begins.get(node.step)! + layer.get(id)! * WIDE, y: TOP + row * TALL });
  }
  return { places, columns, right: x + 10 };
}

/** The row nearest to the wanted one that is not taken; it is taken then. */
function free(taken: Set<number>, wanted: number): number {
  const around = Math.round(wanted);
  for (let by = 0; ; by++) {
    for (const row of [around + by, around - by]) {
      if (row >= 0 && !taken.has(row)) {
        taken.add(row);
        return row;
      }
    }
  }
}

const mean = (numbers: number[]): number => (numbers.length ? numbers.reduce((a, b) => a + b) / numbers.length : 0);

// The automaton as a graph, and the events around a match one by one: the states that an event brings runs to light up,
// and beside it is the compact graph that the engine has then.
import { type Graph, type Step, type Steps } from "./api";
import { CompactGraph } from "./compact";
import { el, mark, number, svg } from "./dom";
import { layout, type Placed, shortened } from "./layout";

export class Automaton {
  private steps: Steps | null = null;
  private at = 0;
  private picture = el("div", { class: "graph", tabindex: "0", role: "region", "aria-label": "The automaton" });
  private stepper = el("div", { class: "stepper" });
  private states = new Map<string, SVGElement>();
  private compact = new CompactGraph();
  private graphs = el("div", { class: "graphs" }, this.picture, this.compact.box);

  constructor(box: HTMLElement) {
    box.replaceChildren(this.graphs, this.stepper);
    this.stepper.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by && this.steps && (event.target as HTMLElement).tagName !== "INPUT") {
        event.preventDefault();
        this.go(this.at + by);
      }
    });
    this.explain();
  }

  show(graph: Graph | null): void {
    this.states.clear();
    if (!graph) return this.picture.replaceChildren(el("p", { class: "empty" }, "The query has an error; there is no automaton yet."));
    if (graph.text) {
      const note = el("p", { class: "muted" }, `${number(graph.size)} states are too many to draw; here is the table.`);
      return this.picture.replaceChildren(note, el("pre", {}, graph.text));
    }
    const drawn = this.draw(graph), wide = Number(drawn.getAttribute("width"));
    drawn.style.width = `min(${wide}px, max(100%, ${Math.round(0.7 * wide)}px))`; // a little smaller, if it fits then
    drawn.style.height = "auto";
    this.picture.replaceChildren(drawn);
    this.graphs.classList.toggle("stacked", 0.7 * wide > this.graphs.clientWidth / 2);
    this.light();
  }

  follow(steps: Steps | null): void {
    this.steps = steps;
    this.at = 0;
    if (!steps) return this.explain();
    const back = el("button", { type: "button", id: "step-back", "aria-label": "The event before" }, "◀");
    const on = el("button", { type: "button", id: "step-on", "aria-label": "The next event" }, "▶");
    const slider = el("input", { type: "range", min: 0, max: Math.max(0, steps.events.length - 1), value: 0, "aria-label": "Event" });
    back.onclick = () => this.go(this.at - 1);
    on.onclick = () => this.go(this.at + 1);
    slider.oninput = () => this.go(Number(slider.value));
    const list = el("ol", { class: "steps" });
    steps.events.forEach((event, k) => {
      const item = el("li", {}, this.line(event));
      item.onclick = () => this.go(k);
      list.append(item);
    });
    this.stepper.replaceChildren(
      el("div", { class: "stepbar" }, el("h2", {}, `Match ${number(steps.match + 1)}, event by event`), back, on, slider),
      el("p", { class: "muted legend-line" }, el("i", { class: "dot lit" }), "a run enters at this event", el("i", { class: "dot reached" }), "reached before"),
      list,
    );
    this.go(Math.max(0, steps.events.findIndex((event) => event.variable >= 0)));
  }

  private line(event: Step): HTMLElement {
    const states = event.entered.length ? `→ ${event.entered.join(", ")}` : "";
    return el("button", { type: "button", class: "step" },
      el("span", { class: "number" }, number(event.row)),
      el("span", { class: "when" }, event.time.replace(/^.* /, "")),
      el("span", { class: "key" }, event.variable >= 0 && mark(event.variable), event.type),
      el("span", { class: "what" }, event.text),
      el("span", { class: "to" }, event.ends ? `${states} match` : states));
  }

  private explain(): void {
    this.compact.show(null, 0, []);
    this.stepper.replaceChildren(el("p", { class: "empty" }, "Choose a match and step through its events to see the states light up."));
  }

  private go(to: number): void {
    if (!this.steps?.events.length) return;
    this.at = Math.min(Math.max(0, to), this.steps.events.length - 1);
    const slider = this.stepper.querySelector("input");
    if (slider) slider.value = String(this.at);
    this.stepper.querySelectorAll(".steps > li").forEach((item, k) => {
      item.classList.toggle("now", k === this.at);
      if (k === this.at) {
        item.setAttribute("aria-current", "step");
        item.scrollIntoView({ block: "nearest" });
      } else item.removeAttribute("aria-current");
    });
    this.compact.show(this.steps.graph, this.at, this.steps.events);
    this.light();
  }

  private light(): void {
    const events = this.steps?.events ?? [];
    const now = new Set((events[this.at]?.entered ?? []).map(String));
    const before = new Set(events.slice(0, this.at).flatMap((event) => event.entered.map(String)));
    for (const [id, state] of this.states) {
      state.classList.toggle("lit", now.has(id));
      state.classList.toggle("reached", !now.has(id) && before.has(id));
    }
  }

  private draw(graph: Graph): SVGElement {
    const placed = layout(graph);
    const arrowhead = svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      svg("path", { d: "M0 0L8 4L0 8z", class: "head" }));
    const picture = svg("svg", {
      width: placed.width, height: placed.height, viewBox: `0 0 ${placed.width} ${placed.height}`, role: "img",
      "aria-label": `Automaton of ${graph.size} states`,
    }, svg("defs", {}, arrowhead));
    for (const arrow of placed.arrows) picture.append(this.arrow(arrow, placed));
    const start = placed.at.get(graph.start)!;
    picture.append(svg("circle", { cx: start.x, cy: start.y, r: 6, class: "start" }));
    for (const state of graph.states) {
      const { x, y } = placed.at.get(state.id)!;
      const label = svg("text", { x, y: y + 4, class: "name" });
      label.textContent = state.id;
      const carries = svg("text", { x, y: y + 38, class: "carries" });
      carries.textContent = shortened(state.carries.join(", "));
      const title = svg("title");
      title.textContent = [state.final ? "final: a match ends here" : "", ...state.carries.map((c) => `carries ${c}`)].filter(Boolean).join("\n");
      const group = svg("g", { class: `state${state.final ? " final" : ""}`, "data-state": state.id }, title,
        svg("circle", { cx: x, cy: y, r: 20 }), state.final ? svg("circle", { cx: x, cy: y, r: 15.5, class: "inner" }) : null,
        label, carries);
      this.states.set(state.id, group);
      picture.append(group);
    }
    return picture;
  }

  private arrow({ from, to, lines, waits }: Placed["arrows"][0], placed: Placed): SVGElement {
    const a = placed.at.get(from)!, b = placed.at.get(to)!;
    const label = svg("g", { class: "label" });
    const write = (x: number, y: number): void => {
      lines.slice(0, 3).forEach((text, k) => {
        const line = svg("text", { x, y: y - 14 * (Math.min(lines.length, 3) - 1 - k) });
        line.textContent = lines.length > 3 && k === 2 ? `… ${lines.length - 2} more` : shortened(text);
        const title = svg("title");
        title.textContent = lines.join("\n");
        line.append(title);
        label.append(line);
      });
    };
    let d: string;
    if (from === to) {
      d = `M${a.x - 9} ${a.y - 19}C${a.x - 26} ${a.y - 54} ${a.x + 26} ${a.y - 54} ${a.x + 10} ${a.y - 20}`;
      write(a.x, a.y - 48);
    } else {
      const gap = from === "start" ? 8 : 21;
      const bend = b.x <= a.x ? 70 : a.y === b.y && spans(placed, a, b) ? -64 : 0;
      const angle = Math.atan2(b.y - a.y, b.x - a.x);
      const x1 = a.x + gap * Math.cos(angle), y1 = a.y + gap * Math.sin(angle) + (bend ? Math.sign(bend) * 8 : 0);
      const x2 = b.x - 22 * Math.cos(angle), y2 = b.y - 22 * Math.sin(angle) + (bend ? Math.sign(bend) * 8 : 0);
      d = bend
        ? `M${x1} ${y1}C${x1 + (x2 - x1) / 4} ${y1 + bend} ${x2 - (x2 - x1) / 4} ${y2 + bend} ${x2} ${y2}`
        : `M${x1} ${y1}L${x2} ${y2}`;
      write((x1 + x2) / 2, (y1 + y2) / 2 + (bend ? bend * 0.75 + (bend > 0 ? 14 : -4) : -8));
    }
    return svg("g", { class: `arrow${waits ? " waits" : ""}` }, svg("path", { d, "marker-end": "url(#head)" }), waits && from === to ? null : label);
  }
}

/** Whether another state lies between two of the same height. */
const spans = (placed: Placed, a: { x: number; y: number }, b: { x: number; y: number }): boolean =>
  [...placed.at.values()].some((p) => p.y === a.y && p.x > a.x && p.x < b.x);

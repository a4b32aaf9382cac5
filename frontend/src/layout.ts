// Places for the states of an automaton: in layers from left to right, as far from the start as the longest way there.
import type { Graph } from "./api";

export interface Placed {
  at: Map<string, { x: number; y: number }>;
  arrows: { from: string; to: string; lines: string[]; waits: boolean; joins: boolean }[];
  width: number;
  height: number;
}

const TALL = 116, LETTER = 6.4, LONGEST = 34;

export function layout(graph: Graph): Placed {
  const arrows = merged(graph);
  const states = [graph.start, ...graph.states.map((state) => state.id)];
  const layer = layers(states, arrows);
  const columns: string[][] = [];
  for (const state of states) (columns[layer.get(state)!] ??= []).push(state);
  const at = new Map<string, { x: number; y: number }>();
  const tallest = Math.max(...columns.map((column) => column?.length ?? 0));
  let x = 40;
  columns.forEach((column, k) => {
    // near those that they are reached from
    const rank = (state: string): number => {
      const before = arrows.filter((arrow) => arrow.to === state && at.has(arrow.from)).map((arrow) => at.get(arrow.from)!.y);
      return before.length ? before.reduce((a, b) => a + b) / before.length : 0;
    };
    column.sort((a, b) => rank(a) - rank(b));
    column.forEach((state, j) => at.set(state, { x, y: 70 + ((tallest - column.length) / 2 + j) * TALL }));
    const labels = arrows.filter((a) => layer.get(a.from) === k && a.to !== a.from).flatMap((a) => a.lines);
    x += Math.max(110, Math.min(LONGEST, Math.max(0, ...labels.map((line) => line.length))) * LETTER + 74);
  });
  return { at, arrows, width: Math.max(...[...at.values()].map((p) => p.x)) + 60, height: 70 + (tallest - 1) * TALL + 86 };
}

/** One arrow for all transitions between two states. */
function merged(graph: Graph): Placed["arrows"] {
  const found = new Map<string, Placed["arrows"][0]>();
  for (const edge of graph.edges) {
    const key = `${edge.from} ${edge.to} ${edge.waits}`;
    const text = [edge.event, edge.compares].filter(Boolean).join(" & ") + (edge.binds ? ` → ${edge.binds}` : "");
    const known = found.get(key);
    if (known) known.lines.push(text);
    else found.set(key, { from: edge.from, to: edge.to, lines: [text], waits: edge.waits, joins: edge.joins });
  }
  return [...found.values()];
}

export const shortened = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

/** The longest way to each state without going round. */
function layers(states: string[], arrows: Placed["arrows"]): Map<string, number> {
  const found = new Map<string, number>(states.map((state) => [state, 0]));
  const onWay = new Set<string>();
  let work = 0;
  const visit = (state: string, depth: number): void => {
    if (work++ > 20000) return;
    found.set(state, Math.max(found.get(state)!, depth));
    onWay.add(state);
    for (const { from, to } of arrows) if (from === state && !onWay.has(to) && found.get(to)! <= depth) visit(to, depth + 1);
    onWay.delete(state);
  };
  visit(states[0]!, 0);
  return found;
}

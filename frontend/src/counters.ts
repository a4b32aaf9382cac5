// The counters of a run.
import type { Status } from "./api";
import { bytes, el, number } from "./dom";

const HINTS: Record<string, string> = {
  "events/s": "After the first slice of events, with which the engine is loaded",
  memory: "What the recogniser holds: partial matches, keys, its journal",
};

export function showCounters(box: HTMLElement, status: Status | null): void {
  const rate = status?.rate ?? 0;
  const cells: [string, string][] = [
    ["events", status ? number(status.events) : "–"],
    ["matches", status ? number(status.matches) : "–"],
    ["events/s", rate ? rate >= 1e6 ? `${(rate / 1e6).toFixed(1)} M` : number(Math.round(rate)) : "–"],
    ["memory", status?.memory ? bytes(status.memory) : "–"],
  ];
  box.replaceChildren(...cells.map(([name, value]) =>
    el("div", { "data-counter": name, title: HINTS[name] ?? "" }, el("dt", {}, name), el("dd", {}, value))));
}

// What the marks of the timeline stand for: only what is in view is explained.
import type { Lanes } from "./api";
import { el, mark } from "./dom";

export function legend(lanes: Lanes | null): HTMLElement[] {
  if (!lanes?.matches) return [];
  const also = (kind: string, text: string): HTMLElement => el("span", { class: "also" }, el("i", { class: kind, "aria-hidden": "true" }), text);
  const some = (test: (lane: Lanes["lanes"][0]) => unknown): boolean => lanes.lanes.some((lane) => test(lane));
  return [
    ...lanes.variables.map((name, k) => el("span", { class: "key" }, mark(k), name)),
    ...(some((lane) => lane.spans?.length) ? [also("span", "a match")] : []),
    ...(some((lane) => lane.bins) ? [also("bins", "many matches")] : []),
    ...(some((lane) => lane.others?.length) ? [also("other", `other events of the ${lanes.keys.join(", ") || "lane"}`)] : []),
    ...(lanes.window !== null ? [also("window", "window of the chosen match")] : []),
    also("ends", "where matches end"),
  ];
}

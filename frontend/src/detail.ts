// The match that is chosen: its keys and measures, and the events behind it with what lies between them.
import type { Match } from "./api";
import { el, mark, number } from "./dom";

export function showMatch(box: HTMLElement, match: Match | null, zoom: () => void, step: () => void): void {
  if (!match) {
    box.replaceChildren(el("p", { class: "empty" }, "Choose a match to see the events behind it."));
    return;
  }
  const zoomTo = el("button", { type: "button" }, "Zoom to it");
  const stepIt = el("button", { type: "button", id: "step-through" }, "Step through");
  zoomTo.onclick = zoom;
  stepIt.onclick = step;
  const facts = el("dl", { class: "facts" },
    ...match.measures.map(({ name, value }) => el("div", {}, el("dt", {}, name), el("dd", {}, value || "NULL"))));
  const head = el("tr", {}, ...["as", "row", "after", ...match.columns].map((name) => el("th", { scope: "col" }, name)));
  const body = el("tbody");
  for (const event of match.events) {
    const names = event.variables.map((name) =>
      el("span", { class: "key" }, mark(match.variables.indexOf(name)), name));
    const skipped = event.skipped > 0 ? el("span", { class: "skipped", title: "events between that are not part of the match" }, ` skips ${number(event.skipped)}`) : null;
    body.append(el("tr", {},
      el("td", { class: "names" }, ...names),
      el("td", { class: "number" }, number(event.row)),
      el("td", { class: "gap" }, event.gap, skipped),
      ...event.cells.map((text) => el("td", {}, text))));
  }
  const more = match.all > match.events.length ? el("p", { class: "muted" }, `… and ${number(match.all - match.events.length)} more events`) : null;
  box.replaceChildren(
    el("div", { class: "detail-head" }, el("h2", {}, `Match ${number(match.match + 1)}`), zoomTo, stepIt),
    facts,
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Events of the match" },
      el("table", {}, el("thead", {}, head), body)),
    ...(more ? [more] : []),
  );
}

// The diagnosis as bars: where partial matches died.
import { type Diagnosis, tell } from "./api";
import { el, number } from "./dom";

/** Asks for diagnoses, which can be cancelled. Each takes too long to be made anew at every change of the query. */
export class Diagnosing {
  private asked: AbortController | null = null;

  constructor(private box: HTMLElement, private again: () => void) {}

  async show(body: object): Promise<void> {
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    const cancel = el("button", { type: "button", class: "cancel-diagnosis" }, "Cancel");
    cancel.onclick = () => this.drop("The diagnosis was cancelled.");
    this.box.replaceChildren(el("p", { class: "empty" }, "Looking through the events for the reason … ", cancel));
    try {
      const found = await tell<Diagnosis>("/api/diagnose", body, asked.signal);
      if (asked === this.asked) showDiagnosis(this.box, found);
    } catch (error) {
      if (asked === this.asked) throw error;
    }
  }

  /** The query or the events are others now. */
  outdate(): void {
    if (this.asked) this.drop("The query or the events have changed.");
  }

  private drop(said: string): void {
    this.offer(said, "Diagnose");
  }

  /** Says something, with a button that begins a diagnosis. */
  offer(said: string, label: string): void {
    this.asked?.abort();
    this.asked = null;
    const begin = el("button", { type: "button", class: "diagnose-it" }, label);
    begin.onclick = this.again;
    this.box.replaceChildren(el("p", { class: "empty" }, `${said} `, begin));
  }
}

function showDiagnosis(box: HTMLElement, found: Diagnosis): void {
  const most = Math.max(1, ...found.clauses.map((clause) => Math.log10(1 + (clause.matches ?? 0))));
  const clauses = found.clauses.map((clause) => {
    const matches = clause.matches === null ? "?" : `${clause.all ? "" : "> "}${number(clause.matches)}`;
    return bar(clause.text, Math.log10(1 + (clause.matches ?? 0)) / most, `${matches} matches at ${number(clause.positions)} events`);
  });
  const conditions = found.conditions.flatMap((condition) => [
    bar(condition.text, condition.events ? condition.hits / condition.events : 0, `${number(condition.hits)} of ${number(condition.events)} events`),
    ...(condition.parts.length > 1
      ? condition.parts.map((part) => bar(part.text, part.true / Math.max(1, part.true + part.false), `${number(part.true)} true, ${number(part.false)} false`, 1 + part.depth))
      : []),
  ]);
  const ruled = Math.max(1, ...found.claims.map((claim) => claim.ruled_out ?? 0));
  const claims = found.claims.map((claim) =>
    bar(claim.text, (claim.ruled_out ?? 0) / ruled, claim.ruled_out === null ? "" : `ruled out ${number(claim.ruled_out)} groups of partial matches`));
  const reasons = found.reasons.length
    ? el("ul", { class: "reasons" }, ...found.reasons.map((reason) => el("li", {}, reason)))
    : el("p", {}, "Nothing stands in the way of this query.");
  box.replaceChildren(
    el("h2", {}, "Why these matches, and no others"), reasons,
    section("How far partial matches got", el("p", { class: "muted" }, found.reach.path || "no event could be the first of a match"),
      bar(`${found.reach.done} of ${found.reach.total} steps`, found.reach.total ? found.reach.done / found.reach.total : 0, "")),
    section("What each clause leaves", ...clauses, el("p", { class: "muted" }, "The bars of this part are on a logarithmic scale.")),
    section("Events that satisfy each condition", ...conditions),
    ...(claims.length ? [section("Conditions between events", ...claims)] : []),
    el("details", {}, el("summary", {}, "All of it as text"), el("pre", { tabindex: "0" }, found.text)),
  );
}

const section = (title: string, ...inside: HTMLElement[]): HTMLElement => el("section", { class: "bars" }, el("h3", {}, title), ...inside);

function bar(text: string, share: number, note: string, depth = 0): HTMLElement {
  const fill = el("i");
  fill.style.width = `${Math.max(share > 0 ? 0.5 : 0, Math.min(1, share) * 100)}%`;
  const name = el("span", { class: "bar-name", title: text }, text);
  name.style.paddingLeft = `${depth * 16}px`;
  return el("div", { class: "bar" }, name, el("span", { class: "bar-room" }, fill), el("span", { class: "bar-note" }, note));
}

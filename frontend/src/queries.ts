// The queries of this browser: those that were run, the latest first, and those that were saved under a name.
import { byId, el } from "./dom";
import { keep, kept } from "./kept";

const MOST = 50;

interface Saved { name: string; text: string }

export class Queries {
  private dialog = byId<HTMLDialogElement>("queries");
  private name = byId<HTMLInputElement>("query-name");

  constructor(private page: { text: () => string; use: (text: string) => void }) {
    byId("show-queries").onclick = () => {
      this.draw();
      this.dialog.showModal();
    };
    byId("save-query").onclick = () => this.save();
    this.name.onkeydown = (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.save();
    };
  }

  /** A query was run. */
  note(text: string): void {
    const others = this.recent.filter((known) => known !== text);
    keep("recent-queries", [text, ...others].slice(0, MOST));
  }

  private get recent(): string[] {
    return kept<string[]>("recent-queries", []);
  }

  private get saved(): Saved[] {
    return kept<Saved[]>("saved-queries", []);
  }

  private save(): void {
    const name = this.name.value.trim(), text = this.page.text();
    if (!name || !text.trim()) return;
    const others = this.saved.filter((known) => known.name !== name);
    keep("saved-queries", [...others, { name, text }].sort((a, b) => a.name.localeCompare(b.name)));
    this.name.value = "";
    this.draw();
  }

  private draw(): void {
    const use = (text: string, name: string | null): HTMLElement => {
      const button = el("button", { type: "button", class: "use" }, name !== null && el("strong", {}, name), el("code", {}, text));
      button.onclick = () => {
        this.dialog.close();
        this.page.use(text);
      };
      return button;
    };
    const forget = (label: string, action: () => void): HTMLElement => {
      const button = el("button", { type: "button", class: "forget", "aria-label": label, title: label }, "×");
      button.onclick = () => {
        action();
        this.draw();
      };
      return button;
    };
    const { saved, recent } = this;
    byId("saved-queries").replaceChildren(...(saved.length
      ? saved.map(({ name, text }) => el("li", {}, use(text, name), forget(`Delete ${name}`, () => keep("saved-queries", saved.filter((known) => known.name !== name)))))
      : [el("li", { class: "muted" }, "None yet: give the query a name above.")]));
    byId("recent-queries").replaceChildren(...(recent.length
      ? recent.map((text) => el("li", {}, use(text, null), forget("Forget it", () => keep("recent-queries", recent.filter((known) => known !== text)))))
      : [el("li", { class: "muted" }, "None yet.")]));
  }
}

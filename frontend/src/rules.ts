// The rules of a folder as a list, with what their tests say; a click takes a rule's query into the editor.
import { ask, type Rule, type RulesFolder } from "./api";
import { el } from "./dom";

export class Rules {
  private folder = "";

  constructor(private box: HTMLElement, private use: (text: string) => void) {}

  async show(check = false): Promise<void> {
    if (check) this.box.replaceChildren(el("p", { class: "empty" }, "Testing the rules …"));
    let found: RulesFolder;
    try {
      found = await ask<RulesFolder>("/api/rules", { folder: this.folder, check: Number(check) });
    } catch (error) {
      this.box.replaceChildren(el("p", { class: "problem error", role: "alert" }, error instanceof Error ? error.message : String(error)), this.button("Back", () => this.show()));
      return;
    }
    const go = (name: string, folder: string): HTMLElement => this.button(name, () => {
      this.folder = folder;
      return this.show();
    });
    const test = this.button("Check the rules in this folder and below", () => this.show(true));
    test.className = "primary";
    const here = found.files.length ? `${found.files.length} ${found.files.length === 1 ? "file" : "files"} of rules here` : "No files of rules here";
    this.box.replaceChildren(
      el("p", { class: "muted" }, found.shown),
      el("div", { class: "folders" }, found.parent !== null && go("..", found.parent),
        ...found.folders.map((name) => go(`${name}/`, found.folder ? `${found.folder}/${name}` : name))),
      el("p", { class: "check-rules" }, test, el("span", { class: "muted" }, `${here}: .ceql or .yaml, with tests beside them.`)),
      ...(found.rules ? [this.list(found.rules, found.wrong)] : []));
  }

  private list(rules: Rule[], wrong: string[]): HTMLElement {
    const failed = rules.filter((rule) => rule.complaints.length).length + wrong.length;
    const row = (rule: Rule): HTMLElement => {
      const use = el("button", { type: "button", title: "Take its query into the editor" }, rule.name);
      use.onclick = () => this.use(rule.text.trim());
      const state = rule.complaints.length ? "fails" : rule.enabled ? "ok" : "ok, off";
      return el("tr", { class: rule.complaints.length ? "fails" : "" },
        el("td", { class: "state" }, state), el("th", { scope: "row" }, use),
        el("td", {}, rule.tests ? `${rule.tests} ${rule.tests === 1 ? "test" : "tests"}` : "no tests"),
        el("td", {}, rule.said.join(", "), ...rule.tags.map((tag) => el("span", { class: "chip" }, tag))),
        el("td", {}, rule.description, ...rule.complaints.map((text) => el("pre", { class: "complaint" }, text))));
    };
    return el("section", { class: "rules" },
      el("h2", { role: "status" }, `${rules.length} ${rules.length === 1 ? "rule" : "rules"}, ${failed ? `${failed} failed` : "none failed"}`),
      ...wrong.map((line) => el("pre", { class: "complaint" }, line)),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rules" }, el("table", {},
        el("thead", {}, el("tr", {}, ...["State", "Rule", "Tests", "About", ""].map((name) => el("th", { scope: "col" }, name || el("span", { class: "hidden" }, "What is wrong"))))),
        el("tbody", {}, ...rules.map(row)))));
  }

  private button(text: string, action: () => Promise<void>): HTMLButtonElement {
    const made = el("button", { type: "button" }, text);
    made.onclick = () => void action();
    return made;
  }
}

// What one takes along: the matches and the timeline as files, the query as programs.
import { file } from "./api";
import { download, el } from "./dom";

const NAMES: Record<string, string> = { python: "Python", pyspark: "PySpark", cli: "Command line" };

interface Page {
  run: string | null; outdated: boolean; query: string;
  svg(): void; copy(text: string, said: string): void; say(error: unknown): void;
}

export function showExports(box: HTMLElement, code: Record<string, string>, page: Page): void {
  const button = (text: string, action: () => void): HTMLElement => {
    const made = el("button", { type: "button" }, text);
    made.onclick = action;
    return made;
  };
  const matches = (run: string, format: string): void =>
    void file(`/api/run/${run}/matches.${format}`).then((content) => download(`matches.${format}`, content), (error) => page.say(error));
  const { run } = page;
  const saves = el("p", { class: "saves" }, page.outdated ? "Matches of the query before: " : "Matches of the last run: ",
    ...(run ? [button("Parquet", () => matches(run, "parquet")), button("CSV", () => matches(run, "csv"))] : ["none yet."]),
    button("Timeline as SVG", () => page.svg()),
    button("Query as a file", () => download("query.ceql", new Blob([`${page.query}\n`], { type: "text/plain" }))));
  box.replaceChildren(saves, ...Object.entries(code).map(([name, text]) => el("section", { class: "code" },
    el("h2", {}, NAMES[name] ?? name, button("Copy", () => page.copy(text, `${NAMES[name]} is copied.`))),
    el("pre", { tabindex: "0" }, text))));
}

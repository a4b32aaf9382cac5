// MATCH_RECOGNIZE over the events that are loaded: a statement, and the table that it gives.
import { type Answered, type Data, tell } from "./api";
import { el, number } from "./dom";
import { keep, kept } from "./kept";

interface Page { data: () => Data | null; dialects: string[] }

export class Sql {
  private text = el("textarea", { id: "sql-text", spellcheck: "false", rows: 9, "aria-label": "SQL with MATCH_RECOGNIZE" });
  private dialect = el("select", { id: "sql-dialect", "aria-label": "Dialect" });
  private button = el("button", { id: "sql-run", type: "button", class: "primary" }, "Run SQL");
  private said = el("span", { id: "sql-said", class: "muted", role: "status" });
  private problem = el("div", { id: "sql-problem", role: "alert" });
  private table = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows" });
  private offered = "";
  private asked: AbortController | null = null;

  constructor(box: HTMLElement, private page: Page) {
    const standard = el("option", { value: "" }, "standard SQL");
    this.dialect.replaceChildren(standard, ...page.dialects.map((name) => el("option", { value: name }, name)));
    this.dialect.value = kept("sql-dialect", "");
    this.text.value = kept("sql", "");
    this.button.onclick = () => void this.run();
    this.text.onkeydown = (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      void this.run();
    };
    this.text.oninput = () => this.table.classList.add("old");
    box.replaceChildren(this.text, el("div", { class: "sql-bar" }, this.button, this.dialect, this.said), this.problem, this.table);
  }

  /** Offers a statement that fits the events, unless the user has written one. */
  show(): void {
    const data = this.page.data();
    if (!data || (this.text.value.trim() && this.text.value !== this.offered)) return;
    this.text.value = this.offered = example(data);
  }

  private async run(): Promise<void> {
    const data = this.page.data(), query = this.text.value;
    this.problem.className = "problem";
    this.problem.textContent = "";
    if (!data) {
      this.fail("Open a file or pick an example first.");
      return;
    }
    keep("sql", query === this.offered ? "" : query);
    keep("sql-dialect", this.dialect.value);
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    this.said.textContent = "Running …";
    try {
      const found = await tell<Answered>("/api/sql", { query, data: data.id, dialect: this.dialect.value }, asked.signal);
      if (asked !== this.asked) return;
      const all = `${number(found.total)} ${found.total === 1 ? "row" : "rows"}`;
      this.said.textContent = found.total > found.rows.length ? `${all}, the first ${number(found.rows.length)} are shown` : all;
      this.table.classList.remove("old");
      this.table.replaceChildren(rows(found));
    } catch (error) {
      if (asked === this.asked) this.fail(error instanceof Error ? error.message : String(error));
    }
  }

  private fail(text: string): void {
    this.said.textContent = "";
    this.problem.className = "problem error";
    this.problem.replaceChildren(el("pre", {}, text));
  }
}

function rows({ heads, rows }: Answered): HTMLElement {
  const side = (k: number): Record<string, string> => (heads[k]!.right ? { class: "to-right" } : {});
  return el("table", { class: "rows-of-sql" },
    el("thead", {}, el("tr", {}, ...heads.map((head, k) => el("th", { scope: "col", ...side(k) }, head.name)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, k) => el("td", side(k), cell))))));
}

/** Rises of a number in the events, by time. */
function example(data: Data): string {
  const plain = data.columns.filter((column) => !column.nested), quoted = (name: string): string => (/^[a-z_]\w*$/.test(name) ? name : `"${name}"`);
  const value = plain.find((column) => column.name !== data.time && /^(u?int|float|double|decimal)/.test(column.type));
  const time = quoted(data.time ?? plain[0]?.name ?? "time"), of = quoted(value?.name ?? "value");
  return `SELECT * FROM ${data.streams[0] ?? "events"} MATCH_RECOGNIZE (
  ORDER BY ${time}
  MEASURES FIRST(${time}) AS begins, LAST(${time}) AS ends,
           LAST(up.${of}) AS highest, COUNT(up.*) AS steps
  PATTERN (low up{3,})
  DEFINE up AS ${of} > PREV(${of})
)`;
}

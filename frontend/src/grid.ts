// The table of matches. Only the rows in view exist; others are fetched as they come into view.
import { ask, type Rows } from "./api";
import { el, later, mark, number } from "./dom";

const ROW = 30, PAGE = 100, MOST_PIXELS = 15_000_000;

export class Grid {
  private head = el("div", { class: "row head", role: "row" });
  private body = el("div", { class: "rows", role: "rowgroup" });
  private pages = new Map<number, string[][]>();
  private pending = new Set<number>();
  private total = 0;
  private run: string | null = null;
  private chosen = -1;
  private variables: string[] = [];
  private heads: string[] = [];
  private soon = later(() => this.render(), 30);

  constructor(private box: HTMLElement, private choose: (match: number) => void) {
    box.replaceChildren(this.head, this.body);
    box.addEventListener("scroll", () => {
      this.render();
      this.soon();
    });
    new ResizeObserver(() => this.render()).observe(box);
    box.addEventListener("keydown", (event) => {
      const page = Math.max(1, Math.floor(box.clientHeight / ROW) - 2);
      const steps: Record<string, number> = {
        ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.total, End: this.total,
      };
      const step = steps[event.key];
      if (step === undefined || !this.total) return;
      event.preventDefault();
      this.choose(Math.min(Math.max(this.chosen + step, 0), this.total - 1));
    });
    this.body.addEventListener("click", (event) => {
      const row = (event.target as HTMLElement).closest<HTMLElement>("[data-match]");
      if (row) this.choose(Number(row.dataset.match));
    });
  }

  /** Shows the matches of a run; `total` grows while it goes on. */
  async show(run: string | null, total: number, variables: string[]): Promise<void> {
    if (run !== this.run) {
      this.pages.clear();
      this.pending.clear();
      this.chosen = -1;
      this.heads = [];
      this.box.scrollTop = 0;
    } else this.pages.delete(Math.floor(this.total / PAGE)); // it was not full
    this.run = run;
    this.total = total;
    this.variables = variables;
    this.box.setAttribute("aria-rowcount", String(total));
    if (run && !this.heads.length) await this.fetch(0);
    this.render();
  }

  select(match: number): void {
    this.chosen = match;
    const { ratio, room } = this, top = match * ROW, from = this.box.scrollTop * ratio;
    if (top < from) this.box.scrollTop = Math.floor(top / ratio);
    else if (top + ROW > from + room) this.box.scrollTop = Math.ceil((top + ROW - room) / ratio);
    this.render();
  }

  /** The height that rows have below the head. */
  private get room(): number {
    return Math.max(ROW, this.box.clientHeight - ROW);
  }

  /** Browsers bound how tall an element can be. Beyond that, a pixel of scrolling stands for so many of the rows. */
  private get ratio(): number {
    const whole = this.total * ROW;
    return whole <= MOST_PIXELS ? 1 : (whole - this.room) / (MOST_PIXELS - this.room);
  }

  private async fetch(page: number): Promise<void> {
    const run = this.run;
    if (!run || this.pending.has(page)) return;
    this.pending.add(page);
    try {
      const found = await ask<Rows>(`/api/run/${run}/matches`, { first: page * PAGE, count: PAGE });
      if (run !== this.run) return;
      this.pages.set(page, found.rows);
      this.heads = found.heads;
      if (this.pages.size > 50) this.pages.delete(this.pages.keys().next().value!);
    } finally {
      this.pending.delete(page);
    }
    this.render();
  }

  private render(): void {
    if (!this.total || !this.run) {
      this.head.replaceChildren();
      this.body.style.height = "0";
      this.body.replaceChildren();
      return;
    }
    // all rows have the same least width, so that columns of a share of the rest line up
    const least = this.heads.map((head) => (head === "time" ? 248 : head === "rows" ? 116 : this.variables.includes(head) ? 160 : 72));
    const columns = `58px ${least.map((pixels) => `minmax(${pixels}px, ${pixels}fr)`).join(" ")}`;
    const width = `${58 + least.reduce((a, b) => a + b, 0)}px`;
    this.head.style.gridTemplateColumns = columns;
    this.head.style.minWidth = this.body.style.minWidth = width;
    this.head.replaceChildren(
      el("span", { role: "columnheader" }, "match"),
      ...this.heads.map((head) => {
        const variable = this.variables.indexOf(head);
        return el("span", { role: "columnheader", title: head }, variable >= 0 && mark(variable), head);
      }),
    );
    this.body.style.height = `${Math.min(this.total * ROW, MOST_PIXELS)}px`;
    const scrolled = this.box.scrollTop, from = scrolled * this.ratio;
    const first = Math.max(0, Math.floor(from / ROW) - 2);
    const count = Math.ceil(this.box.clientHeight / ROW) + 4;
    const shown: HTMLElement[] = [];
    for (let k = first; k < Math.min(first + count, this.total); k++) {
      const page = Math.floor(k / PAGE);
      const cells = this.pages.get(page)?.[k % PAGE];
      if (!cells) void this.fetch(page);
      const row = el("div", {
        class: `row${k === this.chosen ? " chosen" : ""}`, role: "row", "data-match": k, "aria-rowindex": k + 1,
        "aria-selected": String(k === this.chosen),
      }, el("span", { role: "gridcell", class: "number" }, number(k + 1)),
      ...(cells ?? []).map((text) => el("span", { role: "gridcell", title: text }, text.replaceAll("\n", " · "))));
      row.style.gridTemplateColumns = columns;
      row.style.top = `${scrolled + k * ROW - from}px`;
      shown.push(row);
    }
    this.body.replaceChildren(...shown);
  }
}

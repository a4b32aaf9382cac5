// The table of matches. Only the rows in view exist; others are fetched as they come into view. The server sorts and filters.
import { ask, type Head, type Row, type Rows } from "./api";
import { el, later, mark, number } from "./dom";
import { kept, keep } from "./kept";

const ROW = 30, PAGE = 100, MOST_PIXELS = 15_000_000, FIRST = 62, PADDING = 22, MOST_TEXT = 280;

export class Grid {
  private bar = el("div", { class: "grid-bar" });
  private box = el("div", { id: "table", class: "grid", tabindex: 0, role: "grid", "aria-label": "Matches" });
  private head = el("div", { class: "row head", role: "row" });
  private body = el("div", { class: "rows", role: "rowgroup" });
  private filter = el("input", { id: "filter", type: "search", "aria-label": "Filter the matches", placeholder: "Filter: tries > 3 and country = US", spellcheck: "false" });
  private jump = el("input", { id: "jump", type: "text", inputmode: "numeric", "aria-label": "Go to a match by its number", placeholder: "Go to no." });
  private said = el("span", { class: "muted", role: "status" });
  private chooser = el("details", { class: "chooser" });
  private pages = new Map<number, Row[]>();
  private pending = new Set<number>();
  private all = 0;
  private total = 0; // of those that the filter leaves
  private run: string | null = null;
  private chosen = -1;
  private place = -1; // of the chosen match among those that are shown
  private variables: string[] = [];
  private heads: Head[] = [];
  private sort = { column: -1, descending: false };
  private order = 0; // counts changes of the order: what was asked before one is dropped
  private measured = new Map<string, number>(); // how wide the cells are that were seen
  private widths: Record<string, number> = kept("widths", {});
  private hidden = new Set<string>(kept<string[]>("hidden-columns", []));
  private soon = later(() => this.render(), 30);
  private context = document.createElement("canvas").getContext("2d")!;

  constructor(parent: HTMLElement, private choose: (match: number) => void) {
    this.box.replaceChildren(this.head, this.body);
    this.bar.replaceChildren(this.filter, this.jump, this.said, this.chooser);
    parent.prepend(el("div", { class: "table" }, this.bar, this.box));
    this.bar.hidden = true;
    this.filter.oninput = later(() => void this.reorder(), 50);
    this.jump.onkeydown = (event) => {
      const wanted = Number(this.jump.value.replaceAll(",", ""));
      if (event.key !== "Enter" || !Number.isInteger(wanted)) return;
      this.choose(Math.min(Math.max(wanted, 1), this.all) - 1);
    };
    this.box.addEventListener("scroll", () => {
      this.render();
      this.soon();
    });
    new ResizeObserver(() => this.render()).observe(this.box);
    this.box.addEventListener("keydown", (event) => {
      if (event.target !== this.box) return;
      const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 2);
      const steps: Record<string, number> = {
        ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.total, End: this.total,
      };
      const step = steps[event.key];
      if (step === undefined || !this.total) return;
      event.preventDefault();
      void this.chooseAt(Math.min(Math.max(this.place + step, 0), this.total - 1));
    });
    this.body.addEventListener("click", (event) => {
      const row = (event.target as HTMLElement).closest<HTMLElement>("[data-match]");
      if (row) this.choose(Number(row.dataset.match));
    });
  }

  /** Shows the matches of a run; `all` grows while it goes on. */
  async show(run: string | null, all: number, variables: string[]): Promise<void> {
    const last = Math.floor(this.total / PAGE);
    if (run !== this.run) {
      this.clear();
      this.chosen = this.place = -1;
      this.heads = [];
      this.sort = { column: -1, descending: false };
      this.filter.value = "";
      this.measured.clear();
      this.box.scrollTop = 0;
    } else if (this.ordered) this.clear();
    else this.pages.delete(last); // it was not full
    this.run = run;
    this.all = all;
    if (!this.ordered) this.total = all;
    this.variables = variables;
    this.bar.hidden = !all;
    if (run && all && (!this.heads.length || this.ordered)) await this.fetch(0);
    this.render();
  }

  /** Shows the row of a match, wherever the order has it. */
  select(match: number): void {
    this.chosen = match;
    this.place = this.ordered ? -1 : match;
    if (!this.ordered) this.reveal(match);
    else {
      const known = [...this.pages].flatMap(([page, rows]) => rows.map((row, k) => ({ match: row.match, place: page * PAGE + k })));
      const found = known.find((row) => row.match === match);
      if (found) this.reveal(found.place);
      else void this.fetch(0, match);
    }
    this.render();
  }

  private get ordered(): boolean {
    return this.sort.column >= 0 || this.filter.value.trim() !== "";
  }

  private clear(): void {
    this.order++;
    this.pages.clear();
    this.pending.clear();
  }

  private async reorder(): Promise<void> {
    this.clear();
    this.box.scrollTop = 0;
    if (!this.ordered) this.total = this.all;
    await this.fetch(0, this.chosen);
  }

  private async chooseAt(place: number): Promise<void> {
    const page = Math.floor(place / PAGE);
    if (!this.pages.has(page)) await this.fetch(page);
    const row = this.pages.get(page)?.[place % PAGE];
    if (!row) return;
    this.choose(row.match);
  }

  private reveal(place: number): void {
    this.place = place;
    const { ratio, room } = this, top = place * ROW, from = this.box.scrollTop * ratio;
    if (top < from) this.box.scrollTop = Math.floor(top / ratio);
    else if (top + ROW > from + room) this.box.scrollTop = Math.ceil((top + ROW - room) / ratio);
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

  private async fetch(page: number, match = -1): Promise<void> {
    const { run, order } = this;
    if (!run || (this.pending.has(page) && match < 0)) return;
    this.pending.add(page);
    try {
      const found = await ask<Rows>(`/api/run/${run}/matches`, {
        first: page * PAGE, count: PAGE, ...(this.sort.column >= 0 && { sort: this.sort.column, descending: Number(this.sort.descending) }),
        ...(this.filter.value.trim() && { filter: this.filter.value }), ...(match >= 0 && { match }),
      });
      if (run !== this.run || order !== this.order) return;
      this.pages.set(page, found.rows);
      this.heads = found.heads;
      if (this.ordered) this.total = found.total;
      this.filter.toggleAttribute("aria-invalid", found.problem !== null);
      this.said.textContent = found.problem ?? (this.filter.value.trim() ? `${number(found.total)} of ${number(found.all)}` : "");
      this.said.classList.toggle("wrong", found.problem !== null);
      this.measure(found);
      if (this.pages.size > 50) this.pages.delete(this.pages.keys().next().value!);
      if (match >= 0) found.place === null ? (this.place = -1) : this.reveal(found.place);
    } finally {
      this.pending.delete(page);
    }
    this.render();
  }

  // --- columns ---

  private get shown(): Head[] {
    return this.heads.filter((head) => !this.hidden.has(head.name));
  }

  /** Cells are never cut but for long texts: numbers and times take the room that they need. */
  private measure(rows: Rows): void {
    this.context.font = getComputedStyle(this.box).font;
    const wide = (text: string): number => Math.ceil(this.context.measureText(text).width) + PADDING;
    rows.heads.forEach((head, k) => {
      const most = head.right || head.kind === "time" || head.kind === "row" ? Infinity : MOST_TEXT;
      const cells = Math.max(0, ...rows.rows.map((row) => wide(row.cells[k]!)));
      const needed = Math.max(wide(head.name) + (head.sortable ? 16 : 0) + (this.variables.includes(head.name) ? 16 : 0), Math.min(cells, most));
      this.measured.set(head.name, Math.max(this.measured.get(head.name) ?? 0, needed));
    });
  }

  private width(head: Head): number {
    return this.widths[head.name] ?? this.measured.get(head.name) ?? 80;
  }

  private resize(head: Head, width: number | null): void {
    if (width === null) delete this.widths[head.name];
    else this.widths[head.name] = Math.max(36, Math.round(width));
    keep("widths", this.widths);
    this.render();
  }

  private sortBy(head: Head): void {
    const { column, descending } = this.sort, begins = head.right; // the largest first, for numbers
    if (column !== head.column) this.sort = { column: head.column, descending: begins };
    else if (descending === begins) this.sort = { column, descending: !begins };
    else this.sort = { column: -1, descending: false };
    void this.reorder();
  }

  private title(head: Head): HTMLElement {
    const variable = this.variables.indexOf(head.name), own = this.sort.column === head.column;
    const name: HTMLElement | string = head.sortable
      ? el("button", { type: "button", tabindex: -1, title: `Sort by ${head.name}` }, head.name, own && el("i", { "aria-hidden": "true" }, this.sort.descending ? " ▼" : " ▲"))
      : head.name;
    if (typeof name !== "string") name.onclick = () => this.sortBy(head);
    const grip = el("i", { class: "grip", title: "Drag to resize; double click to fit", "aria-hidden": "true" });
    grip.onpointerdown = (event) => {
      event.preventDefault();
      const from = event.clientX, width = this.width(head);
      const drag = (now: PointerEvent): void => this.resize(head, width + now.clientX - from);
      const done = (): void => removeEventListener("pointermove", drag);
      addEventListener("pointermove", drag);
      addEventListener("pointerup", done, { once: true });
    };
    grip.ondblclick = () => this.resize(head, null);
    return el("span", {
      role: "columnheader", class: head.right ? "to-right" : "", title: head.name,
      ...(head.sortable && { "aria-sort": own ? (this.sort.descending ? "descending" : "ascending") : "none" }),
    }, variable >= 0 && mark(variable), name, grip);
  }

  private showChooser(): void {
    const names = this.heads.map((head) => head.name).join("\n") + [...this.hidden].join("\n");
    if (this.chooser.dataset.names === names) return;
    this.chooser.dataset.names = names;
    const boxes = this.heads.map((head) => {
      const box = el("input", { type: "checkbox" });
      box.checked = !this.hidden.has(head.name);
      box.onchange = () => {
        if (box.checked) this.hidden.delete(head.name);
        else this.hidden.add(head.name);
        keep("hidden-columns", [...this.hidden]);
        this.render();
      };
      return el("label", {}, box, head.name);
    });
    this.chooser.replaceChildren(el("summary", {}, "Columns"), el("div", { class: "boxes" }, ...boxes));
  }

  private render(): void {
    if (!this.all || !this.run || !this.heads.length) {
      this.head.replaceChildren();
      this.body.style.height = "0";
      this.body.replaceChildren();
      return;
    }
    this.showChooser();
    const { shown } = this, least = shown.map((head) => this.width(head));
    const columns = [`${FIRST}px`, ...least.slice(0, -1).map((pixels) => `${pixels}px`), `minmax(${least.at(-1) ?? 0}px, 1fr)`].join(" ");
    const width = `${FIRST + least.reduce((a, b) => a + b, 0)}px`;
    this.head.style.gridTemplateColumns = columns;
    this.head.style.minWidth = this.body.style.minWidth = width;
    this.box.setAttribute("aria-rowcount", String(this.total));
    const signed = JSON.stringify([shown, this.sort, this.variables]);
    if (this.head.dataset.signed !== signed || !this.head.firstChild) {
      this.head.dataset.signed = signed;
      this.head.replaceChildren(el("span", { role: "columnheader", class: "to-right" }, "match"), ...shown.map((head) => this.title(head)));
    }
    this.body.style.height = `${Math.min(this.total * ROW, MOST_PIXELS)}px`;
    const scrolled = this.box.scrollTop, from = scrolled * this.ratio;
    const first = Math.max(0, Math.floor(from / ROW) - 2), count = Math.ceil(this.box.clientHeight / ROW) + 4;
    const visible = this.heads.map((head) => !this.hidden.has(head.name));
    const lines: HTMLElement[] = [];
    for (let k = first; k < Math.min(first + count, this.total); k++) {
      const page = Math.floor(k / PAGE), found = this.pages.get(page)?.[k % PAGE];
      if (!found) void this.fetch(page);
      const own = found !== undefined && found.match === this.chosen;
      const row = el("div", {
        class: `row${own ? " chosen" : ""}`, role: "row", "aria-rowindex": k + 1, "aria-selected": String(own), ...(found && { "data-match": found.match }),
      }, el("span", { role: "gridcell", class: "number" }, found ? number(found.match + 1) : ""),
      ...(found?.cells ?? []).map((text, j) => visible[j]! && el("span", { role: "gridcell", class: this.heads[j]!.right ? "to-right" : "", title: text }, text)));
      row.style.gridTemplateColumns = columns;
      row.style.top = `${scrolled + k * ROW - from}px`;
      lines.push(row);
    }
    this.body.replaceChildren(...lines);
  }
}

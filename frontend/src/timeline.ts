// The timeline: all events and matches as a strip, and below it the lanes of a range that the user zooms and pans.
import { ask, type Lanes, type Overview, type Span } from "./api";
import { length, place, ticks } from "./axis";
import { colour, download, el, later, number } from "./dom";
import { legend } from "./legend";
import { onCanvas, onSvg, type Shape, type Surface } from "./surface";

const STRIP = 46, AXIS = 26, TOP = STRIP + AXIS, LANE = 32, RIGHT = 12;
const MARGIN = 0.5; // of the range, fetched on either side so that panning has something to show

export interface View { low: number; high: number; by: "key" | "match" }

interface Theme { text: string; muted: string; line: string; back: string; lane: string; accent: string; bar: string }

export class Timeline {
  private canvas = el("canvas", { tabindex: 0, role: "img" });
  private legend = el("div", { class: "legend" });
  private range = el("span", { class: "range" });
  private empty = el("p", { class: "empty" });
  private byKey = el("button", { type: "button", "aria-pressed": "true" }, "by key");
  private byMatch = el("button", { type: "button", "aria-pressed": "false" }, "by match");
  private tip = el("div", { class: "tip", hidden: true });
  private overview: Overview | null = null;
  private lanes: Lanes | null = null;
  private firstLane = 0; // of those that were fetched
  private scroll = 0; // pixels
  private low = 0;
  private high = 1;
  private by: "key" | "match" = "key";
  private run: string | null = null;
  private busy = "";
  private data: string | null = null;
  private chosen = -1;
  private asked: AbortController | null = null;
  private following = true;
  private revealing = -1; // a match whose lane is to be scrolled to, once it is known
  private known = { width: 1000, height: 400 }; // the size when it was last seen
  private fetchSoon = later(() => void this.fetch(), 16);
  private latest = Promise.resolve();
  private drawing = 0;

  /** `choose` is told of a match that the user picks, and whether it may be out of view; `moved` of a change of the view. */
  constructor(parent: HTMLElement, private choose: (match: number, reveal: boolean) => void, private moved: () => void) {
    const zoomIn = el("button", { type: "button", "aria-label": "Zoom in", title: "Zoom in (+)" }, "+");
    const zoomOut = el("button", { type: "button", "aria-label": "Zoom out", title: "Zoom out (−)" }, "−");
    const fit = el("button", { type: "button", title: "Show everything (0)" }, "Fit");
    const save = el("button", { type: "button", id: "svg", title: "Save the timeline as SVG" }, "SVG");
    const lanes = el("div", { class: "segmented", role: "group", "aria-label": "Lanes" }, this.byKey, this.byMatch);
    const bar = el("div", { class: "timeline-bar" }, this.legend, this.range, lanes, zoomOut, zoomIn, fit, save);
    parent.replaceChildren(bar, el("div", { class: "canvas" }, this.canvas, this.empty, this.tip));
    zoomIn.onclick = () => this.zoom(0.5);
    zoomOut.onclick = () => this.zoom(2);
    fit.onclick = () => this.fit();
    save.onclick = () => void this.save();
    this.byKey.onclick = () => this.setBy("key");
    this.byMatch.onclick = () => this.setBy("match");
    new ResizeObserver(() => this.redraw(true)).observe(this.canvas.parentElement!);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    this.listen();
  }

  get view(): View {
    return { low: this.low, high: this.high, by: this.by };
  }

  /** Shows data, or the matches of a run over them. The range stays if the same data are shown. */
  async show(data: string | null, run: string | null, view?: View): Promise<void> {
    const fresh = data !== this.data;
    if (fresh) this.overview = null;
    if (fresh || run !== this.run) {
      this.asked?.abort(); // lanes of what was shown before must not come after this
      this.lanes = null;
    }
    this.data = data;
    this.run = run;
    this.chosen = this.revealing = -1;
    await this.refresh(fresh ? (view ?? null) : undefined, fresh && !view);
  }

  /** Says what a run is doing that has no match yet; "" if none runs. */
  wait(busy: string): void {
    if (busy === this.busy) return;
    this.busy = busy;
    this.describe();
  }

  /** Asks for what has come since. */
  async refresh(view?: View | null, fit = false): Promise<void> {
    const atEnd = this.overview !== null && this.high >= this.overview.high && this.following;
    if (!this.data) return this.redraw();
    const asked: Record<string, string | number> = { data: this.data, width: Math.round(this.plot.width) };
    if (this.run) asked.run = this.run;
    const shown = `${this.data} ${this.run}`, found = await ask<Overview>("/api/overview", asked);
    if (shown !== `${this.data} ${this.run}`) return; // something else is shown by now
    this.overview = found;
    if (view) {
      ({ low: this.low, high: this.high } = view);
      this.setBy(view.by, false);
    } else if (fit || atEnd || this.low >= this.high) {
      const wide = fit || this.low <= this.overview.low ? null : this.high - this.low;
      this.high = this.overview.high;
      this.low = wide === null ? this.overview.low : this.high - wide;
    }
    await this.fetch();
  }

  /** Brings a span into view, if it is out of it. */
  reveal({ start, end }: { start: number; end: number }): void {
    const half = (this.high - this.low) / 2, middle = (start + end) / 2;
    if (start >= this.low && end <= this.high) return;
    this.revealing = this.chosen;
    this.move(middle - half, middle + half);
  }

  select(match: number): void {
    this.chosen = match;
    this.revealing = match;
    this.fetchSoon();
    this.redraw();
  }

  private revealLane(place: number): void {
    const y = place * LANE;
    if (y < this.scroll || y + LANE > this.scroll + this.plot.height) this.setScroll(y + LANE / 2 - this.plot.height / 2);
  }

  /** Zooms so that a match fills a third of the view. */
  focus(start: number, end: number): void {
    const room = Math.max((end - start) * 1.2, (this.overview!.high - this.overview!.low) / 5000, 1e-6);
    this.move(start - room, end + room);
  }

  fit(): void {
    if (this.overview) this.move(this.overview.low, this.overview.high);
  }

  zoom(factor: number, at = (this.low + this.high) / 2): void {
    this.move(at - (at - this.low) * factor, at + (this.high - at) * factor);
  }

  async save(): Promise<void> {
    await this.fetch(); // what comes into view may be on its way
    const lanes = this.lanes?.lanes.length ?? 0;
    const height = TOP + Math.max(1, Math.min(lanes, 60)) * LANE + 8;
    const surface = onSvg(this.size.width, height, this.theme.back);
    this.draw(surface, this.size.width, height);
    download("timeline.svg", new Blob([surface.done()], { type: "image/svg+xml" }));
  }

  private setBy(by: "key" | "match", fetch = true): void {
    this.by = by;
    this.scroll = 0;
    this.revealing = this.chosen;
    this.byKey.setAttribute("aria-pressed", String(by === "key"));
    this.byMatch.setAttribute("aria-pressed", String(by === "match"));
    if (fetch) {
      this.moved();
      void this.fetch();
    }
  }

  private move(low: number, high: number): void {
    if (!this.overview) return;
    const whole = this.overview.high - this.overview.low;
    const span = Math.min(Math.max(high - low, whole * 1e-7, 1e-6), whole * 1.1);
    const room = whole * 0.05;
    low = Math.min(Math.max((low + high - span) / 2, this.overview.low - room), this.overview.high + room - span);
    this.low = low;
    this.high = low + span;
    this.following = this.high >= this.overview.high;
    this.redraw();
    this.fetchSoon();
    this.moved();
  }

  private setScroll(scroll: number): void {
    const most = Math.max(0, (this.lanes?.total ?? 0) * LANE - this.plot.height);
    this.scroll = Math.min(Math.max(0, scroll), most);
    this.redraw();
    this.fetchSoon();
  }

  /** Asks for the lanes in view. If others are asked for meanwhile, it waits for those. */
  private fetch(): Promise<void> {
    return (this.latest = this.fetchLanes());
  }

  private async fetchLanes(): Promise<void> {
    this.asked?.abort();
    if (!this.run || !this.overview) {
      this.lanes = null;
      return this.redraw();
    }
    const asked = (this.asked = new AbortController());
    const { low, high } = this, span = high - low, wanted = this.revealing;
    const first = Math.max(0, Math.floor(this.scroll / LANE) - 10);
    const count = Math.ceil(this.plot.height / LANE) + 20;
    const range = { low: low - MARGIN * span, high: high + MARGIN * span };
    try {
      const found = await ask<Lanes>(
        `/api/run/${this.run}/lanes`,
        { ...range, width: Math.round(this.plot.width * (1 + 2 * MARGIN)), first, count, by: this.by, ...(wanted >= 0 && { match: wanted }) },
        asked.signal,
      );
      this.lanes = found;
      this.firstLane = first;
      this.bins = range;
      this.byKey.disabled = !found.keys.length;
      this.byKey.textContent = found.keys.length ? `by ${found.keys.join(", ")}` : "by key";
      if (found.by !== this.by) this.setBy(found.by, false);
      // the view may have moved to the match since: then the lanes of the new one are to show it
      if (wanted === this.revealing && low === this.low && high === this.high) this.revealing = -1;
      if (found.place !== null) this.revealLane(found.place);
      this.redraw();
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      await this.latest;
    }
  }

  private bins = { low: 0, high: 1 };

  // --- drawing ---

  private get size(): { width: number; height: number } {
    const box = this.canvas.parentElement!; // without a size while another view is open
    if (box.clientWidth) this.known = { width: Math.max(200, box.clientWidth), height: Math.max(120, box.clientHeight) };
    return this.known;
  }

  private get left(): number {
    return this.size.width < 520 ? 70 : 120;
  }

  private get plot(): { width: number; height: number } {
    return { width: this.size.width - this.left - RIGHT, height: this.size.height - TOP };
  }

  private get theme(): Theme {
    const style = getComputedStyle(document.documentElement);
    const of = (name: string): string => style.getPropertyValue(`--${name}`).trim();
    return {
      text: of("text"), muted: of("muted"), line: of("line"), back: of("back"), lane: of("stripe"), accent: of("accent"),
      bar: of("bar"),
    };
  }

  redraw(resized = false): void {
    cancelAnimationFrame(this.drawing);
    this.drawing = requestAnimationFrame(() => {
      const { width, height } = this.size;
      const ratio = window.devicePixelRatio || 1;
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
      const context = this.canvas.getContext("2d")!;
      context.scale(ratio, ratio);
      this.draw(onCanvas(context), width, height);
      this.describe();
      if (resized && this.run) this.fetchSoon();
    });
  }

  private describe(): void {
    const { overview, lanes } = this;
    this.canvas.setAttribute("aria-label", lanes
      ? `Timeline: ${number(lanes.matches)} matches in ${number(lanes.total)} lanes from ${place(this.low, overview!.seconds)} to ${place(this.high, overview!.seconds)}`
      : "Timeline");
    this.range.textContent = overview ? `${place(this.low, overview.seconds)} · ${length(this.high - this.low, overview.seconds)}` : "";
    this.empty.textContent = !this.data
      ? "Open a file or pick an example to see its events here."
      : !this.run ? "Run the query to see its matches here."
      : lanes && !lanes.matches ? this.busy || "No match in this range." : "";
    this.legend.replaceChildren(...legend(lanes));
  }

  private x(at: number): number {
    return this.left + ((at - this.low) / (this.high - this.low)) * this.plot.width;
  }

  private at(x: number): number {
    return this.low + ((x - this.left) / this.plot.width) * (this.high - this.low);
  }

  private draw(surface: Surface, width: number, height: number): void {
    const theme = this.theme, { overview } = this;
    if (!overview) return;
    this.drawStrip(surface, overview, theme);
    for (const { at, label } of ticks(this.low, this.high, overview.seconds, this.plot.width / 85)) {
      const x = this.x(at);
      surface.line(x, TOP - 6, x, height, theme.line, 1);
      if (x > this.left + 14 && x < width - RIGHT - 14) surface.text(label, x, TOP - 10, theme.muted, "center");
    }
    surface.line(0, TOP - 0.5, width, TOP - 0.5, theme.line, 1);
    const lanes = this.lanes;
    if (!lanes) return;
    surface.clip(0, TOP, width, height - TOP, () => {
      lanes.lanes.forEach((lane, k) => {
        const top = TOP + (this.firstLane + k) * LANE - this.scroll;
        if (top + LANE < TOP || top > height) return;
        const y = top + LANE / 2;
        if ((this.firstLane + k) % 2) surface.rect(0, top, width, LANE, theme.lane);
        const own = lane.spans?.some((span) => span.match === this.chosen) ?? false;
        if (own) surface.rect(0, top, 3, LANE, theme.accent);
        surface.clip(0, TOP, this.left - 8, height - TOP, () =>
          surface.text(lane.name, 12, y + 4, own ? theme.text : theme.muted, "left", own));
        surface.clip(this.left, Math.max(TOP, top), width - this.left - RIGHT + 6, LANE, () => {
          for (const at of lane.others ?? []) surface.line(this.x(at), y - 3, this.x(at), y + 3, theme.muted, 1, 0.45);
          if (lane.bins) this.drawBins(surface, lane.bins, y, theme);
          for (const span of lane.spans ?? []) if (span.match !== this.chosen) this.drawSpan(surface, span, y, theme);
          for (const span of lane.spans ?? []) if (span.match === this.chosen) this.drawChosen(surface, span, y, theme);
        });
      });
      this.drawScrollbar(surface, lanes.total, width, height, theme);
    });
  }

  private drawStrip(surface: Surface, overview: Overview, theme: Theme): void {
    const { width } = this.plot, bins = overview.events.length;
    const events = Math.max(1, ...overview.events), matches = Math.max(1, ...overview.matches);
    const base = STRIP - 8;
    surface.text("all", 12, base - 8, theme.muted);
    for (let k = 0; k < bins; k++) {
      const x = this.left + (k / bins) * width;
      const tall = (overview.events[k]! / events) * 26;
      if (tall) surface.rect(x, base - Math.max(1, tall), width / bins + 0.3, Math.max(1, tall), theme.bar);
      if (overview.matches[k]) {
        const dot = 2 + 2 * Math.sqrt(overview.matches[k]! / matches);
        surface.mark(0, x + width / bins / 2, base - 31, dot, theme.accent);
      }
    }
    const whole = overview.high - overview.low;
    const from = this.left + ((Math.max(this.low, overview.low) - overview.low) / whole) * width;
    const to = this.left + ((Math.min(this.high, overview.high) - overview.low) / whole) * width;
    if (to - from < width - 1) {
      surface.rect(from, 2, Math.max(2, to - from), STRIP - 8, theme.accent, 0.14, 3);
      surface.rect(from - 1, 2, 2, STRIP - 8, theme.accent, 0.9);
      surface.rect(Math.max(to, from + 2) - 1, 2, 2, STRIP - 8, theme.accent, 0.9);
    }
    surface.line(this.left, base + 0.5, this.left + width, base + 0.5, theme.line, 1);
  }

  private drawBins(surface: Surface, bins: NonNullable<Lanes["lanes"][0]["bins"]>, y: number, theme: Theme): void {
    const most = Math.max(...bins.matches, 1), wide = (this.bins.high - this.bins.low) / bins.count;
    bins.at.forEach((k, j) => {
      const x = this.x(this.bins.low + k * wide);
      const tall = 3 + 17 * Math.sqrt(bins.matches[j]! / most);
      surface.rect(x, y + 10 - tall, Math.max(1.5, this.x(this.bins.low + (k + 1) * wide) - x - 0.5), tall, theme.accent, 0.75);
    });
  }

  private drawSpan(surface: Surface, span: Span, y: number, theme: Theme): void {
    const from = this.x(span.start), to = this.x(span.end);
    surface.rect(from - 3, y - 3, to - from + 6, 6, theme.muted, 0.28, 3);
    for (const [at, variable] of span.marks) surface.mark((variable % 4) as Shape, this.x(at), y, 4.5, colour(variable));
  }

  private drawChosen(surface: Surface, span: Span, y: number, theme: Theme): void {
    const from = this.x(span.start), to = this.x(span.end);
    const window = this.lanes!.window, seconds = this.overview!.seconds;
    if (window !== null) {
      const until = this.x(span.start + window);
      surface.rect(from, y - 14, until - from, 28, theme.accent, 0.1, 4);
      surface.line(until, y - 14, until, y + 14, theme.accent, 1.5, 0.9, true);
      const text = `window ${length(window, seconds)}`;
      if (until - to > surface.measure(text) + 22) surface.text(text, until - 6, y + 4, theme.muted, "right");
    }
    surface.rect(from - 3, y - 3, to - from + 6, 6, theme.accent, 0.45, 3);
    span.marks.forEach(([at], k) => {
      if (!k) return;
      const before = this.x(span.marks[k - 1]![0]), x = this.x(at);
      const text = length(at - span.marks[k - 1]![0], seconds);
      if (x - before > surface.measure(text) + 18) surface.text(text, (x + before) / 2, y - 6, theme.text, "center");
    });
    for (const [at, variable] of span.marks) surface.mark((variable % 4) as Shape, this.x(at), y, 5.5, colour(variable), theme.back);
  }

  private drawScrollbar(surface: Surface, total: number, width: number, height: number, theme: Theme): void {
    const all = total * LANE, room = height - TOP;
    if (all <= room) return;
    const tall = Math.max(24, (room * room) / all);
    surface.rect(width - 7, TOP + ((room - tall) * this.scroll) / (all - room), 5, tall, theme.muted, 0.6, 2.5);
  }

  // --- what the user does ---

  private listen(): void {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      if (!this.overview) return;
      event.preventDefault();
      const { x, y } = this.point(event), lanes = x < this.left || x > this.size.width - RIGHT;
      if (y > TOP && (lanes || event.altKey)) return this.setScroll(this.scroll + event.deltaY);
      const across = event.shiftKey ? event.deltaY || event.deltaX : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
      if (across) {
        const by = (across / this.plot.width) * (this.high - this.low);
        return this.move(this.low + by, this.high + by);
      }
      this.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) * 0.004), y > STRIP ? this.at(x) : this.onStrip(x));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.overview || event.button) return;
      const begun = this.point(event), low = this.low, high = this.high, scroll = this.scroll;
      const strip = begun.y < STRIP;
      let moved = false;
      canvas.setPointerCapture(event.pointerId);
      if (strip) this.center(this.onStrip(begun.x));
      const drag = (now: PointerEvent): void => {
        const { x, y } = this.point(now);
        moved ||= Math.hypot(x - begun.x, y - begun.y) > 3;
        if (strip) return this.center(this.onStrip(x));
        if (!moved) return;
        const by = ((x - begun.x) / this.plot.width) * (high - low);
        this.move(low - by, high - by);
        this.setScroll(scroll - (y - begun.y));
      };
      const done = (): void => {
        canvas.removeEventListener("pointermove", drag);
        if (!moved && !strip) this.pick(begun.x, begun.y);
      };
      canvas.addEventListener("pointermove", drag);
      canvas.addEventListener("pointerup", done, { once: true });
      canvas.addEventListener("pointercancel", () => canvas.removeEventListener("pointermove", drag), { once: true });
    });
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    canvas.addEventListener("dblclick", (event) => {
      const { x, y } = this.point(event);
      const hit = this.hit(x, y);
      if (hit) this.focus(hit.span.start, hit.span.end);
      else this.zoom(0.4, this.at(x));
    });
    canvas.addEventListener("keydown", (event) => {
      const step = (this.high - this.low) * 0.15;
      const keys: Record<string, () => void> = {
        ArrowLeft: () => this.move(this.low - step, this.high - step),
        ArrowRight: () => this.move(this.low + step, this.high + step),
        ArrowUp: () => this.choose(Math.max(0, this.chosen - 1), true),
        ArrowDown: () => this.choose(this.chosen + 1, true),
        PageUp: () => this.setScroll(this.scroll - this.plot.height),
        PageDown: () => this.setScroll(this.scroll + this.plot.height),
        "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6),
        "0": () => this.fit(), Home: () => this.fit(),
        Enter: () => this.chosen >= 0 && this.focusChosen(),
      };
      const action = keys[event.key];
      if (action && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        action();
      }
    });
  }

  private focusChosen(): void {
    for (const lane of this.lanes?.lanes ?? [])
      for (const span of lane.spans ?? []) if (span.match === this.chosen) this.focus(span.start, span.end);
  }

  private point(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private onStrip(x: number): number {
    const { low, high } = this.overview!;
    return low + ((x - this.left) / this.plot.width) * (high - low);
  }

  private center(at: number): void {
    const half = (this.high - this.low) / 2;
    this.move(at - half, at + half);
  }

  private hit(x: number, y: number): { span: Span; row: number; variable: number; at: number } | null {
    if (y < TOP || !this.lanes) return null;
    const lane = this.lanes.lanes[Math.floor((y - TOP + this.scroll) / LANE) - this.firstLane];
    let best: { span: Span; row: number; variable: number; at: number } | null = null;
    let nearest = 9;
    for (const span of lane?.spans ?? []) {
      for (const [at, variable, row] of span.marks) {
        const away = Math.abs(this.x(at) - x) - (span.match === this.chosen ? 0.5 : 0);
        if (away < nearest) [nearest, best] = [away, { span, row, variable, at }];
      }
    }
    if (best) return best;
    const inside = lane?.spans?.find((span) => this.x(span.start) - 4 <= x && x <= this.x(span.end) + 4);
    return inside ? { span: inside, row: -1, variable: -1, at: inside.start } : null;
  }

  private pick(x: number, y: number): void {
    const hit = this.hit(x, y);
    if (hit) return this.choose(hit.span.match, false);
    const lane = this.lanes?.lanes[Math.floor((y - TOP + this.scroll) / LANE) - this.firstLane];
    if (lane?.bins) this.zoom(0.3, this.at(x));
    else if (lane?.spans?.length && x < this.left) this.choose(lane.spans[0]!.match, false);
  }

  private hover(event: PointerEvent): void {
    const { x, y } = this.point(event), hit = event.buttons ? null : this.hit(x, y);
    this.canvas.style.cursor = hit ? "pointer" : y < STRIP ? "col-resize" : "grab";
    this.tip.hidden = !hit;
    if (!hit) return;
    const seconds = this.overview!.seconds;
    const name = hit.variable >= 0 ? `${this.lanes!.variables[hit.variable]} · ${place(hit.at, seconds)}` : "";
    const span = `match ${hit.span.match + 1} · ${length(hit.span.end - hit.span.start, seconds)}`;
    this.tip.textContent = name ? `${name}\n${span}` : span;
    this.tip.style.left = `${Math.min(x + 12, this.size.width - 190)}px`;
    this.tip.style.top = `${Math.min(y + 14, this.size.height - 44)}px`;
  }
}

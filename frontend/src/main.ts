// The page: what is loaded, what runs, and which view shows it.
import { ask, type Checked, type Data, type Graph, type Match, Refused, type Start, type Status, type Steps, takeToken, tell } from "./api";
import { Automaton } from "./automaton";
import { type Chosen, showColumns } from "./columns";
import { showCounters } from "./counters";
import { showMatch } from "./detail";
import { Diagnosing } from "./diagnosis";
import { byId, el, later, number } from "./dom";
import { type Editor, makeEditor } from "./editor";
import { showExports } from "./exports";
import { Grid } from "./grid";
import { fromFragment, type Linked, toFragment } from "./link";
import { Loader } from "./loader";
import { Queries } from "./queries";
import { Rules } from "./rules";
import { splitter } from "./splitter";
import { Sql } from "./sql";
import { Timeline, type View } from "./timeline";

const TABS = ["matches", "automaton", "diagnose", "explain", "code", "sql", "rules"];

class Page {
  private data: Data | null = null;
  private status: Status | null = null;
  private chosen = -1;
  private tab = "matches";
  private stale = new Set<string>(TABS);
  private watching = 0;
  private checkedAt: AbortController | null = null;
  private editor: Editor;
  private timeline = new Timeline(byId("timeline"), (match, reveal) => void this.choose(match, reveal), () => this.remember());
  private grid = new Grid(byId("lower"), (match) => void this.choose(match, true));
  private why = new Diagnosing(byId("nothing"), () => void this.whyNot());
  private loader = new Loader({ data: () => this.data, load: (origin) => this.load(origin), take: (loading) => this.take(loading) });
  private queries = new Queries({ text: () => this.editor.text(), use: (text) => this.use(text) });
  private automaton = new Automaton(byId("automaton"));
  private diagnosing = new Diagnosing(byId("diagnose"), () => {
    this.stale.add("diagnose");
    void this.fill();
  });
  private sql: Sql;
  private rules = new Rules(byId("rules"), (text) => this.use(text));
  private remember = later(() => history.replaceState(null, "", this.link()), 300);
  private ran = "";
  private followed = ""; // the steps that the automaton shows

  constructor(private start: Start, query: string) {
    this.editor = makeEditor({
      parent: byId("query"),
      text: query,
      known: () => ({ data: this.data, functions: start.functions, aggregates: start.aggregates }),
      check: (text) => this.check(text),
      told: (problems) => this.tellProblem(problems),
      changed: () => this.changed(),
      run: () => void this.run(),
    });
    this.sql = new Sql(byId("sql"), { data: () => this.data, dialects: start.dialects });
    this.listen();
    const redraw = later(() => this.timeline.redraw(true), 50);
    splitter(byId("main"), byId("left"), "left", "Width of the query", false, redraw);
    splitter(byId("matches"), byId("timeline"), "upper", "Height of the timeline", true, redraw);
    splitter(byId("lower"), byId("lower").querySelector(".table")!, "table", "Width of the table", false, redraw);
    showMatch(byId("detail"), null, () => {}, () => {});
    this.showData();
    this.showStatus();
  }

  // --- loading ---

  async load(origin: object, view?: View): Promise<boolean> {
    return this.take(() => tell<Data>("/api/data", origin), view);
  }

  async take(loading: () => Promise<Data>, view?: View): Promise<boolean> {
    document.body.classList.add("busy");
    try {
      this.data = await loading();
    } catch (error) {
      this.say(error);
      return false;
    } finally {
      document.body.classList.remove("busy");
    }
    await this.forget();
    this.showData();
    await Promise.all([this.timeline.show(this.data.id, null, view), this.grid.show(null, 0, [])]);
    this.changed();
    this.editor.recheck();
    if (this.data.live) void this.keepUp(this.data.id);
    return true;
  }

  /** Lets go of the run and of all that is shown of it. */
  private async forget(): Promise<void> {
    const before = this.status;
    this.watching++;
    this.status = null;
    this.ran = "";
    await this.unchoose();
    this.showStatus();
    if (before?.state === "running") await tell(`/api/run/${before.id}/cancel`, {}).catch(() => {});
  }

  private async unchoose(): Promise<void> {
    this.chosen = -1;
    showMatch(byId("detail"), null, () => {}, () => {});
    await this.followMatch();
  }

  /** Shows how many events of a stream have come, and of what types, until it ends or other data are shown. */
  private async keepUp(id: string): Promise<void> {
    while (this.data?.id === id && this.data.live) {
      await new Promise((done) => setTimeout(done, 1000));
      const before = this.data;
      if (before?.id !== id) return;
      try {
        const found = await ask<Data>(`/api/data/${id}`);
        if (this.data?.id !== id) return;
        this.data = found;
        if (found.columns.length !== before.columns.length) this.editor.recheck();
        if (found.rows !== before.rows || !found.live) this.showData();
        if (found.rows !== before.rows && this.status?.state !== "running") await this.timeline.refresh();
      } catch (error) {
        return this.say(error);
      }
    }
  }

  private showData(): void {
    const { data } = this;
    byId("data").replaceChildren(...(data
      ? [el("strong", { title: String(data.origin.path ?? data.name) }, data.name),
         el("span", { class: "muted" }, `${number(data.rows)} ${data.rows === 1 ? "event" : "events"}`),
         data.streams.length > 1 && el("span", { class: "muted" }, `${data.streams.length} streams`),
         data.live && el("span", { class: "live" }, "live"),
         data.sorted && el("span", { class: "muted", title: "The events were not in order of time, and were put in order." }, "sorted"),
        ].filter((part): part is HTMLElement => Boolean(part))
      : [el("span", { class: "muted" }, "No events are loaded")]));
    const box = byId("columns");
    box.hidden = !data;
    if (!data) return;
    showColumns(box, data, (key, value) => void this.setColumn(key, value));
  }

  private async setColumn(key: Chosen, value: string): Promise<void> {
    const data = this.data!;
    const columns = { type: data.type ?? "", time: data.time ?? "", unit: data.unit ?? "", [key]: value };
    await this.load({ ...data.origin, ...columns });
  }

  // --- the query ---

  private async check(text: string): Promise<Checked["problems"]> {
    this.checkedAt?.abort();
    this.checkedAt = new AbortController();
    try {
      const body = { query: text, data: this.data?.id };
      return (await tell<Checked>("/api/check", body, this.checkedAt.signal)).problems;
    } catch (error) {
      if (!(error instanceof DOMException)) this.say(error);
      return [];
    }
  }

  private tellProblem(problems: Checked["problems"]): void {
    const box = byId("problem"), worst = problems.find((p) => p.severity === "error") ?? problems[0];
    box.className = `problem ${worst?.severity ?? ""}`;
    const where = worst?.line ? `Line ${worst.line}, column ${worst.column}: ` : "";
    box.replaceChildren(...(worst ? [el("strong", {}, where + worst.message), worst.suggestion ? ` ${worst.suggestion}` : ""] : []));
  }

  /** The matches that are shown are those of another query. */
  private get outdated(): boolean {
    return this.status !== null && this.ran !== this.editor.text();
  }

  private changed(): void {
    for (const tab of ["automaton", "diagnose", "explain", "code"]) this.stale.add(tab);
    this.remember();
    this.showOutdated();
    this.diagnosing.outdate();
    if (this.tab !== "matches" && this.tab !== "diagnose") void this.fillSoon();
  }

  private showOutdated(): void {
    byId("outdated").hidden = !this.outdated;
    byId("matches").classList.toggle("old", this.outdated);
  }

  private fillSoon = later(() => void this.fill(), 500);

  async run(): Promise<boolean> {
    if (!this.data) return this.tellNote("Open a file or pick an example first.");
    const query = this.editor.text(), { id } = this.data;
    let begun: Status;
    try {
      begun = await tell<Status>("/api/run", { query, data: id });
      if (this.data.id !== id) return false; // another file was opened; a run that nobody watches ends with the next one
    } catch (error) {
      const problems = await this.check(query); // what is wrong with the query is said once, where it stands
      if (!problems.some((problem) => problem.severity === "error")) return this.tellNote(error instanceof Error ? error.message : String(error));
      this.editor.recheck();
      return false;
    }
    this.status = begun;
    this.ran = query;
    this.queries.note(query);
    this.stale.add("code"); // it offers the matches of the last run
    await this.unchoose();
    this.showStatus();
    await this.timeline.show(id, begun.id);
    if (this.status?.id !== begun.id) return false;
    const finished = await this.watch(begun.id);
    if (finished && !this.status?.matches) this.why.offer(`No match was found in ${number(this.status?.events ?? 0)} events.`, "Why?");
    if (finished && this.status?.matches && this.chosen < 0 && !this.status.live) await this.choose(0, false, false);
    return finished;
  }

  /** Says below the query why it does not run. */
  private tellNote(text: string): false {
    byId("note").className = "note failed";
    byId("note").textContent = text;
    return false;
  }

  /** Diagnoses in the place where the matches would be. */
  private async whyNot(): Promise<void> {
    try {
      await this.why.show({ query: this.ran, data: this.data?.id });
    } catch (error) {
      this.why.offer(error instanceof Error ? error.message : String(error), "Try again");
    }
  }

  private use(text: string): void {
    this.editor.replace(text);
    this.editor.focus();
  }

  /** Looks at a run until it has ended. */
  private async watch(run: string): Promise<boolean> {
    const turn = ++this.watching;
    let wait = 60, seen = -1;
    for (;;) {
      let found: Status;
      try {
        found = await ask<Status>(`/api/run/${run}`);
      } catch (error) {
        if (turn === this.watching) this.say(error);
        return false;
      }
      if (turn !== this.watching) return false;
      this.status = found;
      this.showStatus();
      const ended = found.state !== "running";
      if (found.matches !== seen || ended || found.live) {
        seen = found.matches;
        await this.timeline.refresh();
        const variables = await this.variables(run);
        if (turn !== this.watching) return false;
        await this.grid.show(run, found.matches, variables);
        if (turn !== this.watching) return false;
      }
      if (ended) {
        if (this.data?.live || found.total !== this.data?.rows) await this.reloadData();
        return true;
      }
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(500, wait * 1.4);
    }
  }

  private async reloadData(): Promise<void> {
    if (!this.data) return;
    this.data = await ask<Data>(`/api/data/${this.data.id}`);
    this.showData();
  }

  private async variables(run: string): Promise<string[]> {
    return (await ask<{ variables: string[] }>(`/api/run/${run}/lanes`, { count: 0 })).variables;
  }

  async cancel(): Promise<void> {
    if (!this.status) return;
    try {
      this.status = await tell<Status>(`/api/run/${this.status.id}/cancel`, {});
      this.showStatus();
    } catch (error) {
      this.say(error);
    }
  }

  private showStatus(): void {
    const { status } = this, running = status?.state === "running";
    this.showOutdated();
    const none = status !== null && !running && !status.matches;
    byId("nothing").hidden = !none;
    byId("lower").hidden = none;
    byId("cancel").hidden = !running;
    const progress = byId<HTMLProgressElement>("progress");
    progress.hidden = !running || Boolean(status?.live);
    if (status) progress.value = status.total ? status.events / status.total : 0;
    showCounters(byId("counters"), status);
    const notes = [status?.problem, status?.late ? `${number(status.late)} events came late and took no part` : null, this.data?.problem];
    const shown = notes.filter((note): note is string => Boolean(note));
    byId("note").className = `note ${status?.state ?? ""}`;
    const busy = !running ? "" : status.compiling ? `${status.compiling}, once on this machine …` : status.live ? "Following the stream …" : howFar(status);
    byId("note").textContent = shown.length ? shown.join("\n") : busy;
    this.timeline.wait(busy);
  }

  // --- the views ---

  async choose(match: number, reveal: boolean, keep = true): Promise<void> {
    const { status } = this;
    if (!status || match < 0 || match >= status.matches) return;
    this.chosen = match;
    this.grid.select(match);
    this.timeline.select(match); // its lanes are asked for beside the rows of the match
    try {
      const found = await ask<Match>(`/api/run/${status.id}/match/${match}`);
      if (this.chosen !== match || this.status?.id !== status.id) return;
      if (reveal) this.timeline.reveal(found);
      showMatch(byId("detail"), found, () => this.timeline.focus(found.start, found.end), () => void this.step());
      if (this.tab === "automaton") await this.followMatch();
    } catch (error) {
      this.say(error);
    }
    if (keep) this.remember();
  }

  private async step(): Promise<void> {
    if (this.outdated) return this.say(new Refused("Run the query first: this match is of the one before."));
    await this.open("automaton");
    await this.followMatch();
    byId("step-on").focus();
  }

  private async followMatch(): Promise<void> {
    const wanted = this.status && this.chosen >= 0 && !this.outdated ? `/api/run/${this.status.id}/steps/${this.chosen}` : "";
    if (wanted === this.followed) return; // it may be in the midst of its steps
    this.followed = wanted;
    try {
      const steps = wanted ? await ask<Steps>(wanted) : null;
      if (wanted === this.followed) this.automaton.follow(steps);
    } catch (error) {
      this.followed = "";
      this.say(error);
    }
  }

  async open(tab: string): Promise<void> {
    this.tab = TABS.includes(tab) ? tab : "matches";
    for (const name of TABS) {
      byId(name).hidden = name !== this.tab;
      byId(`tab-${name}`).setAttribute("aria-selected", String(name === this.tab));
      byId(`tab-${name}`).tabIndex = name === this.tab ? 0 : -1;
    }
    this.remember();
    await this.fill();
  }

  /** Asks for what the open view shows, unless it is there. */
  private async fill(): Promise<void> {
    const { tab } = this, body = { query: this.editor.text(), data: this.data?.id };
    if (tab === "matches") return this.timeline.redraw(true);
    if (tab === "sql") return this.sql.show();
    if (!this.stale.delete(tab)) return;
    const box = byId(tab);
    try {
      if (tab === "automaton") {
        this.automaton.show(await tell<Graph>("/api/automaton", body));
        await this.followMatch();
      } else if (tab === "rules") await this.rules.show();
      else if (tab === "diagnose") await this.diagnosing.show(body);
      else if (tab === "explain") box.replaceChildren(el("pre", {}, (await tell<{ text: string }>("/api/explain", body)).text));
      else showExports(box, await tell<Record<string, string>>("/api/code", body), {
        run: this.status?.id ?? null, outdated: this.outdated, query: body.query, svg: () => void this.timeline.save().catch((error) => this.say(error)),
        copy: (text, said) => void this.copy(text, said), say: (error) => this.say(error),
      });
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      if (tab === "automaton") this.automaton.show(null);
      else box.replaceChildren(el("p", { class: "empty" }, text));
    }
  }

  // --- around ---

  link(): string {
    const { data } = this;
    const linked: Linked = {
      query: this.editor.text(), origin: data?.origin, view: data ? this.timeline.view : undefined,
      columns: { type: data?.type ?? undefined, time: data?.time ?? undefined, unit: data?.unit ?? undefined },
      match: this.outdated ? -1 : this.chosen, tab: this.tab,
    };
    return toFragment(linked);
  }

  private async copy(text: string, said: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      this.toast(said);
    } catch {
      this.toast("The browser does not allow copying.");
    }
  }

  say(error: unknown): void {
    const text = error instanceof Error ? error.message : String(error);
    if (!this.loader.say(text)) this.toast(text);
  }

  private toast(text: string): void {
    const box = byId("toast");
    box.textContent = text;
    box.classList.add("shown");
    clearTimeout(Number(box.dataset.timer));
    box.dataset.timer = String(window.setTimeout(() => box.classList.remove("shown"), 6000));
  }

  private listen(): void {
    byId("run").onclick = byId("again").onclick = () => void this.run();
    byId("cancel").onclick = () => void this.cancel();
    byId("share").onclick = () => {
      history.replaceState(null, "", this.link());
      const known = !this.data || ["path", "example", "streams"].some((kind) => kind in this.data!.origin);
      void this.copy(location.href, known ? "The link is copied. It opens this view." : "The link is copied. It has no data: these were not loaded by a path.");
    };
    byId("theme").onclick = () => {
      const dark = document.documentElement.dataset.theme
        ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      document.documentElement.dataset.theme = dark ? "light" : "dark";
      localStorage.setItem("ceql-theme", dark ? "light" : "dark");
      this.timeline.redraw();
    };
    const examples = byId<HTMLSelectElement>("example");
    examples.replaceChildren(el("option", { value: "" }, "Examples"), ...this.start.examples.map((e) => el("option", { value: e.id }, e.title)));
    examples.onchange = () => {
      const found = this.start.examples.find((e) => e.id === examples.value);
      examples.value = "";
      if (found) void this.openExample(found.id, found.text);
    };
    for (const [k, name] of TABS.entries()) {
      const tab = byId(`tab-${name}`);
      tab.onclick = () => void this.open(name);
      tab.onkeydown = (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!by) return;
        const next = TABS[(k + by + TABS.length) % TABS.length]!;
        byId(`tab-${next}`).focus();
        void this.open(next);
      };
    }
    window.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented) void this.run();
    });
    window.addEventListener("hashchange", () => {
      if (location.hash.length > 1 && location.hash !== this.link()) void this.restore(fromFragment(location.hash));
    });
    // Until now a click would have been lost: the page says so by controls that are off.
    for (const control of document.querySelectorAll<HTMLButtonElement | HTMLSelectElement>("header :disabled, main :disabled")) control.disabled = false;
  }

  private async openExample(id: string, text: string): Promise<void> {
    this.editor.replace(text);
    if (await this.load({ example: id })) await this.run();
  }

  async begin(data: Data): Promise<void> {
    await this.take(async () => data);
    if (this.editor.text().trim()) await this.run();
  }

  /** Brings back the view of a link. */
  async restore(linked: Linked): Promise<void> {
    if (linked.query !== undefined && linked.query !== this.editor.text()) this.editor.replace(linked.query);
    if (linked.origin && !(await this.load({ ...linked.origin, ...linked.columns }, linked.view))) return;
    if (this.data && linked.query && (await this.run()) && linked.match !== undefined) await this.choose(linked.match, false);
    if (linked.tab) await this.open(linked.tab);
  }
}

/** How much is read, and how long the rest will take. */
function howFar({ events, total, rate }: Status): string {
  if (!total || !events) return "Running …";
  const left = rate ? (total - events) / rate : 0;
  const time = left >= 90 ? `, about ${Math.round(left / 60)} min left` : left >= 1 ? `, about ${Math.round(left)} s left` : "";
  return `Running … ${Math.floor((100 * events) / total)} %${time}`;
}

const theme = localStorage.getItem("ceql-theme");
if (theme) document.documentElement.dataset.theme = theme;
takeToken();
window.addEventListener("hashchange", () => {
  if (takeToken()) location.reload(); // the printed address, in a page that is open
});
try {
  const start = await ask<Start>("/api/start");
  const linked = fromFragment(location.hash);
  const page = new Page(start, linked.query ?? start.query);
  if (linked.origin) await page.restore(linked);
  else if (start.data) await page.begin(start.data);
} catch (error) {
  byId("problem").className = "problem error";
  byId("problem").textContent = error instanceof Error ? error.message : String(error);
}

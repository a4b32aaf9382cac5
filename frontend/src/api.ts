// What the server answers, and how it is asked.

/** A column, or a field of a nested one: its name is a path then. */
export interface Column { name: string; type: string; nested: boolean; values: string[] }
/** What loads data again: a path, an example, a path to follow, or paths by the names of streams. */
export type Origin = Record<string, string | boolean | Record<string, string>>;
export interface Data {
  id: string; name: string; origin: Origin; rows: number;
  type: string | null; time: string | null; unit: string | null;
  live: boolean; problem: string | null; sorted: boolean; streams: string[];
  columns: Column[]; types: { name: string; events: number }[];
}
export interface Example { id: string; title: string; text: string }
export interface Start {
  version: string; query: string; data: Data | null; examples: Example[]; functions: string[]; aggregates: string[];
  dialects: string[];
}
export interface Problem {
  from: number; to: number; severity: "error" | "warning"; message: string; suggestion: string | null;
  line?: number; column?: number;
}
export interface Checked { problems: Problem[]; variables: string[] }
export interface Status {
  id: string; state: "running" | "done" | "cancelled" | "stopped" | "failed"; problem: string | null;
  events: number; total: number; live: boolean; late: number; matches: number; rate: number; memory: number;
  partitions: number; compiling: string;
}
export type Mark = [at: number, variable: number, row: number];
export interface Span { match: number; start: number; end: number; marks: Mark[] }
export interface Lane {
  name: string; count?: number; spans?: Span[]; others?: number[]; first?: number;
  bins?: { count: number; at: number[]; matches: number[] };
}
export interface Lanes {
  variables: string[]; matches: number; window: number | null; keys: string[]; by: "key" | "match"; total: number;
  lanes: Lane[]; place: number | null;
}
export interface Overview {
  low: number; high: number; seconds: boolean; axis: string; events: number[]; matches: number[];
}
/** A column of the table; `column` is what the server sorts it by. */
export interface Head {
  name: string; kind: "measure" | "attribute" | "key" | "time" | "events" | "row"; right: boolean; column: number; sortable: boolean;
}
export interface Row { match: number; cells: string[] }
/** `place` is that of the match that was asked for; `all` are there without the filter. */
export interface Rows { total: number; all: number; first: number; place: number | null; problem: string | null; heads: Head[]; rows: Row[] }
/** A folder below the one where the studio was started; `shown` is its path. */
export interface Folder {
  folder: string; shown: string; parent: string | null; folders: string[]; files: { name: string; size: number; path: string }[];
}
/** The rows that a statement gives; `total` is how many there are. */
export interface Answered { heads: { name: string; right: boolean }[]; rows: string[][]; total: number }
export interface Rule {
  name: string; text: string; path: string; said: string[]; tags: string[]; description: string; enabled: boolean;
  tests: number; complaints: string[];
}
/** `rules` are null unless they were checked. */
export interface RulesFolder extends Folder { rules: Rule[] | null; wrong: string[] }
export interface MatchEvent {
  row: number; at: number; variables: string[]; gap: string; skipped: number; cells: string[];
}
export interface Match {
  match: number; start: number; end: number; columns: string[]; events: MatchEvent[]; all: number;
  variables: string[]; measures: { name: string; value: string }[];
}
export interface Step {
  row: number; type: string; time: string; text: string; variable: number; entered: number[]; ends: boolean;
}
/** A node of the compact graph; `latest` is the latest start below it, compared with the `bound` of a step. */
export interface CompactNode {
  kind: "bottom" | "output" | "union"; step: number; latest: number; children: number[]; binds?: string; variable?: number;
}
export interface Compact {
  nodes: CompactNode[]; most: number; note: string | null;
  steps: { lists: { states: number[]; nodes: number[] }[]; roots: number[]; bound: number }[];
}
export interface Steps { match: number; events: Step[]; variables: string[]; graph: Compact }
export interface Graph {
  states: { id: string; final: boolean; carries: string[] }[];
  edges: { from: string; to: string; event: string; compares: string; binds: string; waits: boolean; joins: boolean }[];
  start: string; size: number; text?: string;
}
export interface Diagnosis {
  events: number; reasons: string[];
  conditions: { text: string; events: number; hits: number; parts: { text: string; depth: number; true: number; false: number }[] }[];
  reach: { done: number; total: number; path: string };
  clauses: { text: string; positions: number; matches: number | null; all: boolean }[];
  claims: { text: string; ruled_out: number | null }[];
  text: string;
}

// The printed address has the token in its fragment, which browsers do not send. The page sends it as a header, and
// keeps it for reloads and for links: browsers keep storage apart by host and port, cookies only by host.
const TOKEN = "ceql-token";

/** Takes the token out of the address; true if it had one. */
export function takeToken(): boolean {
  const fields = new URLSearchParams(location.hash.slice(1)), given = fields.get("token");
  if (!given) return false;
  localStorage.setItem(TOKEN, given);
  fields.delete("token");
  history.replaceState(null, "", `${location.pathname}${fields.size ? `#${fields}` : ""}`);
  return true;
}

/** What the server refuses, in its own words. */
export class Refused extends Error {}

async function answer<T>(response: Response): Promise<T> {
  if (response.ok) return (await response.json()) as T;
  const text = await response.text();
  let problem = text;
  try {
    problem = (JSON.parse(text) as { problem: string }).problem ?? text;
  } catch {
    // not JSON: the text is the message
  }
  throw new Refused(problem || `the studio answers ${response.status}`);
}

async function reach(path: string, init: RequestInit & { headers?: Record<string, string> } = {}): Promise<Response> {
  try {
    return await fetch(path, { ...init, headers: { ...init.headers, "X-Ceql-Token": localStorage.getItem(TOKEN) ?? "" } });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused("The studio does not answer. Is it still running?");
  }
}

export async function ask<T>(path: string, asked: Record<string, string | number> = {}, signal?: AbortSignal): Promise<T> {
  const query = new URLSearchParams(Object.entries(asked).map(([name, value]) => [name, String(value)]));
  return answer(await reach(query.size ? `${path}?${query}` : path, { signal }));
}

export async function tell<T>(path: string, body: object, signal?: AbortSignal): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  return answer(await reach(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

export async function upload(file: File, added: Record<string, string> = {}): Promise<Data> {
  const query = new URLSearchParams({ name: file.name, ...added });
  return answer(await reach(`/api/upload?${query}`, { method: "POST", body: file }));
}

/** The content of a file that the server makes. A plain link could not send the token. */
export async function file(path: string): Promise<Blob> {
  const response = await reach(path);
  return response.ok ? response.blob() : answer(response);
}

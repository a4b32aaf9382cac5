// A link that brings back the view: the query, what loads the data, the columns, the range and the chosen match.
import type { Origin } from "./api";
import type { View } from "./timeline";

export interface Linked {
  query?: string;
  origin?: Origin;
  columns: { type?: string; time?: string; unit?: string };
  view?: View;
  match?: number;
  tab?: string;
}

export function toFragment(linked: Linked): string {
  const fields = new URLSearchParams();
  if (linked.query) fields.set("q", linked.query);
  for (const name of ["path", "example"]) if (typeof linked.origin?.[name] === "string") fields.set(name, String(linked.origin[name]));
  if (linked.origin?.follow) fields.set("follow", "1");
  for (const [name, path] of Object.entries(linked.origin?.streams ?? {})) fields.append("stream", `${name}=${path}`);
  for (const [name, value] of Object.entries(linked.columns)) if (value) fields.set(name, value);
  if (linked.view) fields.set("view", `${linked.view.low},${linked.view.high},${linked.view.by}`);
  if (linked.match !== undefined && linked.match >= 0) fields.set("match", String(linked.match));
  if (linked.tab && linked.tab !== "matches") fields.set("tab", linked.tab);
  return `#${fields}`;
}

export function fromFragment(fragment: string): Linked {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const origin: Linked["origin"] = {};
  for (const name of ["path", "example"]) if (fields.get(name)) origin[name] = fields.get(name)!;
  if (fields.get("follow")) origin.follow = true;
  const streams = fields.getAll("stream").map((text): [string, string] => [text.replace(/=.*/s, ""), text.replace(/^[^=]*=/, "")]);
  if (streams.length) origin.streams = Object.fromEntries(streams);
  const [low, high, by] = (fields.get("view") ?? "").split(",");
  const view = Number.isFinite(parseFloat(low ?? "")) && Number.isFinite(parseFloat(high ?? ""))
    ? { low: parseFloat(low!), high: parseFloat(high!), by: by === "match" ? ("match" as const) : ("key" as const) }
    : undefined;
  const of = (name: string): string | undefined => fields.get(name) ?? undefined;
  return {
    query: of("q"), origin: Object.keys(origin).length ? origin : undefined,
    columns: { type: of("type"), time: of("time"), unit: of("unit") },
    view, match: fields.has("match") ? Number(fields.get("match")) : undefined, tab: of("tab"),
  };
}

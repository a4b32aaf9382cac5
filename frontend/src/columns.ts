// The columns of the events: which of them have types and times, the types that came, and values of the others.
import type { Data } from "./api";
import { el, number } from "./dom";

export type Chosen = "type" | "time" | "unit";

export function showColumns(box: HTMLElement, data: Data, choose: (key: Chosen, value: string) => void): void {
  const names = data.columns.filter((column) => !column.nested).map((column) => column.name);
  const choice = (key: Chosen, options: string[]): HTMLElement => {
    const select = el("select", { id: `column-${key}` }, el("option", { value: "" }, "none"),
      ...options.map((name) => el("option", { value: name, selected: name === data[key] }, name)));
    select.onchange = () => choose(key, select.value);
    return el("div", {}, el("label", { for: `column-${key}` }, key), select);
  };
  const choosable = !data.live && !("upload" in data.origin) && !data.streams.length;
  box.replaceChildren(
    el("summary", {}, "Events"),
    choosable ? el("div", { class: "choices" }, choice("type", names), choice("time", names), choice("unit", ["s", "ms", "us", "ns"])) : "",
    data.types.length ? el("p", { class: "types" }, ...data.types.slice(0, 12).map((type) =>
      el("span", { class: "chip", title: `${number(type.events)} events` }, type.name, el("small", {}, number(type.events))))) : "",
    el("table", {}, el("tbody", {}, ...data.columns.map((column) =>
      el("tr", {}, el("th", { scope: "row" }, column.name), el("td", {}, column.type),
        el("td", { class: "muted" }, column.values.slice(0, 6).join(", ") + (column.values.length > 6 ? ", …" : "")))))),
  );
}

// Small helpers for the page.

type Child = Node | string | null | undefined | false;

/** An element with attributes and children. Text is never read as HTML. */
export function el<K extends keyof HTMLElementTagNameMap>(
  name: K, attributes: Record<string, string | number | boolean> = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false) made.setAttribute(key, String(value));
  }
  for (const child of children) if (child) made.append(child);
  return made;
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found as T;
}

export function svg(name: string, attributes: Record<string, string | number> = {}, ...children: Child[]): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  for (const child of children) if (child) made.append(child);
  return made;
}

/** Calls `action` when nothing has happened for a while. */
export function later(action: () => void, milliseconds: number): () => void {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = window.setTimeout(action, milliseconds);
  };
}

export const number = (value: number): string => value.toLocaleString("en-US");

export function bytes(value: number): string {
  const units = ["B", "KB", "MB", "GB"];
  let k = 0;
  while (value >= 1000 && k < units.length - 1) {
    value /= 1000;
    k++;
  }
  return `${value < 10 && k ? value.toFixed(1) : Math.round(value)} ${units[k]}`;
}

/** Offers content as a file. */
export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// As in ceql's own pictures: they stand out on light and on dark.
export const COLOURS = ["#2f80ed", "#d2691e", "#1f9d55", "#b455d9", "#e0455e", "#0e93a5", "#a07d0a", "#7d7d7d"];
export const colour = (variable: number): string => (variable < 0 ? "#8a94a3" : COLOURS[variable % COLOURS.length]!);

/** A variable's mark, as an element of the legend. */
export function mark(variable: number): HTMLElement {
  const made = el("i", { class: `mark shape${variable % 4}`, "aria-hidden": "true" });
  made.style.setProperty("--own", colour(variable));
  return made;
}

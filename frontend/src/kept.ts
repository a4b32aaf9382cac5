// What the browser keeps of how the page is used: widths, panes, queries. A browser that keeps nothing is no error.

const NAME = "ceql-kept-";

export function kept<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(NAME + name);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

export function keep(name: string, value: unknown): void {
  try {
    localStorage.setItem(NAME + name, JSON.stringify(value));
  } catch {
    // full, or not allowed
  }
}

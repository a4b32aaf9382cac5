// Round ticks of an axis of seconds or of plain numbers, and times as text. Times are shown as the data have them (UTC).

const STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
  10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000, 157680000,
];

export interface Tick { at: number; label: string }

export function ticks(low: number, high: number, seconds: boolean, most: number): Tick[] {
  const least = (high - low) / Math.max(1, most);
  const step = (seconds && STEPS.find((s) => s >= least)) || roundUp(least);
  const found: Tick[] = [];
  for (let k = Math.ceil(low / step); k * step <= high && found.length < 100; k++) {
    found.push({ at: k * step, label: seconds ? clock(k * step, step) : plain(k * step, step) });
  }
  return found;
}

function roundUp(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least || 1));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least * 0.999999)!;
}

const plain = (value: number, step: number): string =>
  value.toLocaleString("en-US", { maximumFractionDigits: Math.max(0, -Math.floor(Math.log10(step))) });

function clock(at: number, step: number): string {
  const text = iso(at);
  if (step >= 86400) return text.slice(0, 10);
  if (at % 86400 === 0) return text.slice(5, 10);
  return step >= 60 ? text.slice(11, 16) : step >= 1 ? text.slice(11, 19) : text.slice(11, 23);
}

const iso = (seconds: number): string => {
  const date = new Date(Math.round(seconds * 1000));
  return Number.isNaN(date.getTime()) ? String(seconds) : date.toISOString();
};

/** A place on the axis as text. */
export const place = (at: number, seconds: boolean): string =>
  seconds ? iso(at).slice(0, 19).replace("T", " ") : at.toLocaleString("en-US");

/** A length of the axis as text. */
export function length(span: number, seconds: boolean): string {
  if (!seconds) return `${plain(span, 1)}`;
  let rest = Math.round(span * 1000) / 1000;
  const parts: string[] = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]] as const) {
    const n = Math.floor(rest / size);
    if (n) parts.push(`${n} ${unit}`);
    rest -= n * size;
  }
  if (rest > 0 && parts.length < 2) parts.push(`${Math.round(rest * 1000) / 1000} s`);
  return parts.slice(0, 2).join(" ") || "0 s";
}

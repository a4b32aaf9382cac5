// What can stand at the cursor: keywords, the types, attributes and values of the loaded data, variables, functions.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { Data } from "./api";

export interface Known { data: Data | null; functions: string[]; aggregates: string[] }

const CLAUSES = [
  "SELECT", "DISTINCT", "FROM", "WHERE", "FILTER", "PARTITION BY", "WITHIN", "CONSUME BY", "LIMIT",
  "AS", "ALL", "OR", "AND", "NOT",
];
const STRATEGIES = ["ALL", "ANY", "NEXT", "LAST", "MAX", "STRICT"];
const CONDITIONS = ["AND", "OR", "NOT", "IN", "LIKE", "RLIKE", "BETWEEN", "IS NULL", "IS NOT NULL", "PREV", "TRUE", "FALSE"];
const UNITS = ["EVENTS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"];

const options = (type: string, labels: string[], boost = 0, detail = ""): Completion[] =>
  labels.map((label) => ({ label, type, boost, detail: detail || undefined }));

export function completing(known: () => Known): (context: CompletionContext) => CompletionResult | null {
  return (context) => {
    const { data, functions, aggregates } = known();
    const before = context.state.sliceDoc(Math.max(0, context.pos - 4000), context.pos);
    const word = /[A-Za-z_]\w*$/.exec(before)?.[0] ?? "";
    const head = before.slice(0, before.length - word.length);
    // a word that is whole needs nothing more
    const result = (found: Completion[]): CompletionResult | null =>
      found.length && (context.explicit || !found.some((option) => option.label === word)) ? { from: context.pos - word.length, options: found, validFor: /^\w*$/ } : null;

    const quoted = /(\w+)\s*(?:==|=|!=|<>|IN\s*\{|IN\s*\(|LIKE)[^'"]*(?:'[^']*'[^']*)*'([^']*)$/i.exec(before);
    if (quoted && (before.match(/'/g)?.length ?? 0) % 2) {
      const values = data?.columns.find((column) => column.name === quoted[1])?.values ?? [];
      return values.length
        ? { from: context.pos - quoted[2]!.length, options: options("text", values), validFor: /^[^']*$/ }
        : null;
    }
    if ((before.match(/'/g)?.length ?? 0) % 2 || /--[^\n]*$/.test(before)) return null;

    const columns = data?.columns ?? [], property = (label: string, type: string): Completion => ({ label, type: "property", detail: type, boost: 5 });
    const attributes = columns.map(({ name, type }) => property(name, type));
    const path = /(?:[A-Za-z_]\w*\.)+$/.exec(head)?.[0];
    if (path !== undefined || /[\w`]\.$/.test(head)) {
      // fields of what is written so far, which may begin with a variable
      for (const begun of path === undefined ? [] : [path, path.replace(/^\w+\./, "")]) {
        const fields = begun ? columns.filter(({ name }) => name.startsWith(begun)) : [];
        if (fields.length) return result(fields.map(({ name, type }) => property(name.slice(begun.length), type)));
      }
      return result(attributes);
    }
    if (/\[[^\]]*$/.test(head)) {
      const inside = [...attributes, ...options("keyword", CONDITIONS), ...options("function", functions, -1)];
      return word || context.explicit || /[[,]\s*$/.test(head) ? result(inside) : null;
    }
    if (!word && !context.explicit) return null;
    if (/\bAS\s+$/i.test(head)) return null;
    if (/\bWITHIN\s+[\d.]+\s*$/i.test(head)) return result(options("keyword", UNITS, 5));
    if (/\bPARTITION\s+BY\s+(?:[\w,\s]*)$/i.test(head) && !/\bWITHIN\b/i.test(head.split(/PARTITION/i).pop()!))
      return result([...attributes.filter((_, k) => !columns[k]!.nested), ...options("keyword", ["WITHIN", "CONSUME BY", "LIMIT"])]);

    const whole = context.state.doc.toString();
    const variables = [...new Set([...whole.matchAll(/\bAS\s+([A-Za-z_]\w*)/gi)].map((found) => found[1]!))];
    const types: Completion[] = (data?.types ?? []).map(({ name, events }) => ({
      label: /^[A-Za-z_]\w*$/.test(name) ? name : `\`${name}\``, type: "type", detail: `${events.toLocaleString("en-US")} events`,
      boost: /(?:\bWHERE|[;:(]|\bOR|\bALL|\bNOT)\s*$/i.test(head) ? 20 : 2,
    }));
    const selecting = /\bSELECT\b[^;]*$/i.test(head) && !/\bWHERE\b/i.test(head);
    return result([
      ...types,
      ...options("variable", variables, selecting || /\bFILTER\b/i.test(head) ? 10 : 1),
      ...options("keyword", CLAUSES),
      ...(selecting ? options("keyword", STRATEGIES, 1, "strategy") : []),
      ...options("function", selecting ? [...aggregates, ...functions] : functions, -5),
      ...options("keyword", selecting ? ["START_TIME", "END_TIME", "DURATION"] : [], -1),
    ]);
  };
}

// The editor of the query: colours, completion, and marks where the server finds something wrong.
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, linter, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState, Prec } from "@codemirror/state";
import {
  drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Problem } from "./api";
import { completing, type Known } from "./completion";
import { ceql } from "./textmate";

// the colours are variables of the page, which has them for light and dark
const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
  { tag: [tags.operatorKeyword, tags.modifier], color: "var(--code-word)" },
  { tag: tags.operator, color: "var(--code-operator)", fontWeight: "600" },
  { tag: tags.string, color: "var(--code-string)" },
  { tag: [tags.number, tags.atom, tags.unit], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: tags.typeName, color: "var(--code-type)" },
  { tag: tags.function(tags.variableName), color: "var(--code-function)" },
]);

export interface Editor { text(): string; replace(text: string): void; focus(): void; recheck(): void }

export interface Wishes {
  parent: HTMLElement;
  text: string;
  known: () => Known;
  check: (text: string) => Promise<Problem[]>;
  told: (problems: Problem[]) => void;
  changed: () => void;
  run: () => void;
}

export function makeEditor(wishes: Wishes): Editor {
  async function problems(view: EditorView): Promise<Diagnostic[]> {
    const text = view.state.doc.toString();
    if (!text.trim()) {
      wishes.told([]);
      return [];
    }
    const found = await wishes.check(text);
    if (view.state.doc.toString() === text) wishes.told(found);
    return found.map((problem) => diagnostic(problem, view.state.doc.length));
  }
  const check = linter(problems, { delay: 300 });
  const view = new EditorView({
    parent: wishes.parent,
    state: EditorState.create({
      doc: wishes.text,
      extensions: [
        Prec.highest(keymap.of([
          { key: "Mod-Enter", run: () => (wishes.run(), true) },
          { key: "Tab", run: acceptCompletion },
        ])),
        lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(), highlightActiveLine(),
        ceql, syntaxHighlighting(colours),
        autocompletion({ override: [completing(wishes.known)], icons: false }),
        check, lintGutter(),
        keymap.of([
          ...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap, indentWithTab,
        ]),
        placeholder("SELECT * WHERE …"),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "CEQL query" }),
        EditorView.updateListener.of((update) => update.docChanged && wishes.changed()),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    replace: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    focus: () => view.focus(),
    recheck: () => void problems(view).then((found) => view.dispatch(setDiagnostics(view.state, found))),
  };
}

function diagnostic(problem: Problem, length: number): Diagnostic {
  const from = Math.min(problem.from, length);
  const to = Math.min(Math.max(problem.to, from + 1), length);
  const message = problem.suggestion ? `${problem.message}\n${problem.suggestion}` : problem.message;
  const meant = /^Did you mean '(.+)'\?$/.exec(problem.suggestion ?? "")?.[1];
  const actions = meant
    ? [{
        name: `Write ${meant}`,
        apply: (view: EditorView, start: number, end: number) =>
          view.dispatch({ changes: { from: start, to: end, insert: meant } }),
      }]
    : [];
  return { from: Math.min(from, to), to, severity: problem.severity, message, actions };
}

// The TextMate grammar of CEQL as a language of CodeMirror. The grammar has only `match` patterns, which are tried in order.
import { StreamLanguage, type StreamParser } from "@codemirror/language";
import { type Tag, tags } from "@lezer/highlight";
import grammar from "../../src/ceql/syntax/ceql.tmLanguage.json";

const TAGS: [scope: string, tag: Tag][] = [
  ["comment", tags.comment],
  ["string", tags.string],
  ["constant.numeric", tags.number],
  ["constant.language", tags.atom],
  ["keyword.control", tags.keyword],
  ["keyword.operator.word", tags.operatorKeyword],
  ["keyword.operator", tags.operator],
  ["storage.modifier", tags.modifier],
  ["support.constant", tags.unit],
  ["support.function", tags.function(tags.variableName)],
  ["entity.name.type", tags.typeName],
  ["variable.other", tags.variableName],
];

const rules = grammar.patterns.map(({ name, match }) => {
  const folded = match.startsWith("(?i)");
  const known = TAGS.find(([scope]) => name.startsWith(scope));
  return { pattern: new RegExp(folded ? match.slice(4) : match, folded ? "iy" : "y"), token: known ? known[0] : "" };
});

const parser: StreamParser<null> = {
  name: "ceql",
  startState: () => null,
  token(stream) {
    if (stream.eatSpace()) return null;
    for (const { pattern, token } of rules) {
      pattern.lastIndex = stream.pos;
      const found = pattern.exec(stream.string);
      if (found && found[0]) {
        stream.pos += found[0].length;
        return token.split(".").join("-");
      }
    }
    stream.next();
    return null;
  },
  tokenTable: Object.fromEntries(TAGS.map(([scope, tag]) => [scope.split(".").join("-"), tag])),
  languageData: { commentTokens: { line: "--" }, closeBrackets: { brackets: ["(", "[", "{", "'", '"'] } },
};

export const ceql = StreamLanguage.define(parser);

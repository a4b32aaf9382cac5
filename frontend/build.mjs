// Builds the page into src/ceql/studio/static, with a manifest of what it was built from: `make studio`.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const out = join(root, "src/ceql/studio/static");
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

const made = await build({
  entryPoints: [join(here, "src/main.ts"), join(here, "src/style.css")],
  absWorkingDir: here,
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
});
for (const name of ["index.html", "icon.svg"]) writeFileSync(join(out, name), readFileSync(join(here, "src", name)));
writeFileSync(join(out, "LICENSES.txt"), licences(made.metafile));

/** The licences of all packages that are in the bundle. */
function licences(metafile) {
  const packages = new Set();
  for (const input of Object.keys(metafile.inputs)) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) packages.add(found[1]);
  }
  return [...packages].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    return `${name}\n\n${file ? readFileSync(join(folder, file), "utf8").trim() : "see the package"}\n`;
  }).join("\n----\n\n");
}

const sources = ["package.json", "package-lock.json", "tsconfig.json", "build.mjs"].map((name) => join(here, name));
sources.push(...readdirSync(join(here, "src")).map((name) => join(here, "src", name)));
sources.push(join(root, "src/ceql/syntax/ceql.tmLanguage.json"));
const hashes = (files) =>
  Object.fromEntries(
    files.sort().map((file) => [
      relative(root, file).split("\\").join("/"),
      createHash("sha256").update(readFileSync(file)).digest("hex"),
    ]),
  );
const built = readdirSync(out).map((name) => join(out, name));
writeFileSync(join(out, "manifest.json"), JSON.stringify({ sources: hashes(sources), built: hashes(built) }, null, 1) + "\n");

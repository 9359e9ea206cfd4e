// Finds the packages of the cache, which is not where the programs are.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

function entry(exports) {
  if (typeof exports === "string") return exports;
  for (const key of ["import", "node", "default"]) if (exports?.[key]) return entry(exports[key]);
  return undefined;
}

export function load(name) {
  const root = path.join(process.env.MODULES, "node_modules", name);
  const { exports, module, main } = JSON.parse(fs.readFileSync(path.join(root, "package.json")));
  const file = entry(exports?.["."] ?? exports) ?? module ?? main;
  return import(pathToFileURL(path.join(root, file)));
}

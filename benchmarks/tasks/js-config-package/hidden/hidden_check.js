const assert = require("node:assert");
const fs = require("node:fs");

const found = JSON.parse(fs.readFileSync("package.json", "utf8"));
assert.deepStrictEqual(found, {
  name: "tidy",
  version: "2.0.0",
  main: "index.js",
  scripts: { start: "node index.js", test: "node --test" },
  license: "MIT",
});

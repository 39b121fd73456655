const assert = require("node:assert");
const fs = require("node:fs");
const { execFileSync } = require("node:child_process");

assert.ok(!fs.existsSync("utils.js"));
assert.strictEqual(require("./strings.js").capitalize("ada"), "Ada");
assert.strictEqual(execFileSync(process.execPath, ["main.js"], { encoding: "utf8" }).trim(), "Hello World");
assert.strictEqual(require("./titles.js").title("a b"), "A B");

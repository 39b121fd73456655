const assert = require("node:assert");
const { execFileSync } = require("node:child_process");
const run = (...words) => execFileSync(process.execPath, ["cli.js", ...words], { encoding: "utf8" });

assert.deepStrictEqual(JSON.parse(run("--json", "a=1", "b=2")), { a: "1", b: "2" });
assert.deepStrictEqual(JSON.parse(run("a=1", "--json")), { a: "1" });
assert.strictEqual(run("a=1", "b=2").trim(), "a=1\nb=2");

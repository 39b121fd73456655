const assert = require("node:assert");
const { execFileSync } = require("node:child_process");

const out = execFileSync(process.execPath, ["main.js"], { encoding: "utf8" });
assert.strictEqual(out.trim(), "Hello, Ada! (user 1)");

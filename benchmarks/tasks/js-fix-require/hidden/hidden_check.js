const assert = require("node:assert");
const { execFileSync } = require("node:child_process");

const out = execFileSync(process.execPath, ["app.js"], { encoding: "utf8" });
assert.strictEqual(out.trim(), "12.57");

import assert from "node:assert";
import fs from "node:fs";
import { execFileSync } from "node:child_process";
import { add, multiply } from "./math.mjs";

assert.strictEqual(add(2, 3), 5);
assert.strictEqual(multiply(4, 3), 12);
assert.ok(!fs.existsSync("math.js"));
assert.strictEqual(execFileSync(process.execPath, ["main.mjs"], { encoding: "utf8" }).trim(), "5 6");

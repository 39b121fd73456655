const assert = require("node:assert");
const { execFileSync } = require("node:child_process");
const run = (number) => execFileSync(process.execPath, ["fizz.js", number], { encoding: "utf8" }).trim().split(/\s+/);

assert.deepStrictEqual(run("5"), ["1", "2", "Fizz", "4", "Buzz"]);
const lines = run("30");
assert.strictEqual(lines.length, 30);
assert.strictEqual(lines[14], "FizzBuzz");
assert.strictEqual(lines[29], "FizzBuzz");
assert.strictEqual(lines[27], "28");

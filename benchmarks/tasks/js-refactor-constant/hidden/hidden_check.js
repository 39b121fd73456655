const assert = require("node:assert");
const fs = require("node:fs");
const { SECONDS_PER_DAY, days, seconds, rest } = require("./time.js");

assert.strictEqual(SECONDS_PER_DAY, 86400);
assert.strictEqual(days(200000), 2);
assert.strictEqual(seconds(3), 259200);
assert.strictEqual(rest(86401), 1);
const text = fs.readFileSync("time.js", "utf8");
assert.ok((text.match(/86_?400/g) || []).length <= 1, "the number is repeated");
assert.ok(text.match(/SECONDS_PER_DAY/g).length >= 5, "the constant is not used everywhere");

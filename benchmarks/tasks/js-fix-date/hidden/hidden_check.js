const assert = require("node:assert");
const { formatDate, addDays } = require("./dates.js");

assert.strictEqual(formatDate(new Date(2026, 0, 5)), "2026-01-05");
assert.strictEqual(formatDate(new Date(1999, 11, 31)), "1999-12-31");
assert.strictEqual(formatDate(addDays(new Date(2026, 0, 31), 1)), "2026-02-01");

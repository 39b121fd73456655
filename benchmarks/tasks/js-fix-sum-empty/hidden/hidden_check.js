const assert = require("node:assert");
const { sum, mean } = require("./sum.js");

assert.strictEqual(sum([]), 0);
assert.strictEqual(sum([1, 2, 3]), 6);
assert.strictEqual(mean([]), 0);
assert.strictEqual(mean([2, 4]), 3);

const assert = require("node:assert");
const { sortNumbers, sortWords, largest } = require("./sorting.js");

const given = [10, 9, 1];
assert.deepStrictEqual(sortNumbers(given), [1, 9, 10]);
assert.deepStrictEqual(given, [10, 9, 1]);
assert.deepStrictEqual(sortNumbers([-1, -10, 0.5, 100]), [-10, -1, 0.5, 100]);
assert.deepStrictEqual(sortWords(["b", "a"]), ["a", "b"]);
assert.strictEqual(largest([5, 40, 300]), 300);

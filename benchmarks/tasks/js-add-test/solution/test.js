const test = require("node:test");
const assert = require("node:assert");
const { wordCount } = require("./words.js");

test("two words", () => {
  assert.strictEqual(wordCount("hello world"), 2);
});

test("no words", () => {
  assert.strictEqual(wordCount(""), 0);
});

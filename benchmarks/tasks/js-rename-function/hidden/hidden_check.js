const assert = require("node:assert");
const fs = require("node:fs");
const prices = require("./prices.js");
const { line } = require("./invoice.js");
const { total } = require("./total.js");

assert.strictEqual(prices.priceWithTax(10), 12);
assert.strictEqual(prices.calc, undefined);
assert.strictEqual(prices.format(1), "1.00 EUR");
assert.strictEqual(line("tea", 5), "tea: 6.00 EUR");
assert.strictEqual(total([10, 20]), 36);
for (const file of ["prices.js", "invoice.js", "total.js"]) {
  assert.doesNotMatch(fs.readFileSync(file, "utf8"), /\bcalc\b/);
}

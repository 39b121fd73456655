const assert = require("node:assert");
const fs = require("node:fs");

const answer = fs.readFileSync(process.env.ANSWER, "utf8");
const named = new Set(answer.match(/\b[a-z]+\.js\b/g) || []);
named.delete("fetch.js"); // where it is defined
assert.deepStrictEqual([...named].sort(), ["inbox.js", "orders.js", "reports.js"]);

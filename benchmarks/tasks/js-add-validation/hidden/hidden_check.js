const assert = require("node:assert");
const { Person } = require("./person.js");

const ada = new Person("Ada");
assert.strictEqual(ada.describe(), "Ada");
assert.throws(() => ada.setAge(-1), RangeError);
assert.throws(() => ada.setAge(151), RangeError);
assert.throws(() => ada.setAge("36"), TypeError);
assert.strictEqual(ada.age, null);
assert.strictEqual(ada.setAge(36).describe(), "Ada (36)");
assert.strictEqual(ada.setAge(0).age, 0);
assert.strictEqual(ada.setAge(150).age, 150);

const { area } = require("./lib/circle.js");
const { round } = require("./lib/round.js");

console.log(round(area(2)));

const { area } = require("./shapes/circle.js");
const { round } = require("./round.js");

console.log(round(area(2)));

const { parseLine } = require("./lines.js");

function header(title) {
  return `== ${title} ==`;
}

function summarize(text) {
  const rows = text.split("\n").map(parseLine);
  return rows.length;
}

function report(title, text) {
  return `${header(title)}\n${summarize(text)} lines`;
}

module.exports = { report };

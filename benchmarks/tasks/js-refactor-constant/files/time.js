function days(seconds) {
  return Math.floor(seconds / 86400);
}

function seconds(days) {
  return days * 86400;
}

function rest(seconds) {
  return seconds % 86400;
}

module.exports = { days, seconds, rest };

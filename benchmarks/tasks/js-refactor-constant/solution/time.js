const SECONDS_PER_DAY = 86400;

function days(seconds) {
  return Math.floor(seconds / SECONDS_PER_DAY);
}

function seconds(days) {
  return days * SECONDS_PER_DAY;
}

function rest(seconds) {
  return seconds % SECONDS_PER_DAY;
}

module.exports = { SECONDS_PER_DAY, days, seconds, rest };

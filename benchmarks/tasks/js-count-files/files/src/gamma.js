module.exports = "gamma";

module.exports = {
  title: "Gallery",
  intro: "Welcome to gallery.",
};

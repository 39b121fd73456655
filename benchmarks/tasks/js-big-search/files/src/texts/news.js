module.exports = {
  title: "News",
  intro: "Welcome to news.",
};

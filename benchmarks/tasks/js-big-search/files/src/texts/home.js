module.exports = {
  title: "Home",
  intro: "Welcome to home.",
};

module.exports = {
  title: "Calendar",
  intro: "Welcome to calendar.",
};

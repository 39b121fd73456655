module.exports = {
  title: "Login",
  intro: "Welcome to login.",
};

console.log("tidy");

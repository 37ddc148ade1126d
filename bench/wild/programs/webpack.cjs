// Bundles what ENTRY imports by webpack, as for production but for the names; nothing is kept.
const { join } = require("node:path");
const { tmpdir } = require("node:os");
const webpack = require("webpack");

const compiler = webpack({
  mode: "production",
  entry: process.argv[2],
  cache: false,
  devtool: false,
  optimization: { minimize: false },
  output: { path: join(tmpdir(), "webpack"), filename: "out.js" },
});
compiler.run((error, stats) => {
  if (error || stats.hasErrors()) {
    console.error(error || stats.toString("errors-only"));
    process.exit(1);
  }
  console.log(stats.toJson({ all: false, modules: true }).modules.length);
});

#!/usr/bin/env node
// CDK's command line at the version of package-lock.json, whatever npm's latest is. npx prefers
// package.json's own "bin" to the registry, so `npx aws-cdk synth` works in a fresh clone.
"use strict";

const { spawnSync } = require("node:child_process");
const { existsSync, readFileSync } = require("node:fs");
const { join } = require("node:path");

const root = join(__dirname, "..");

function versionIn(file, read) {
  const path = join(root, file);
  return existsSync(path) ? read(JSON.parse(readFileSync(path, "utf8"))) : undefined;
}

const wanted = versionIn("package-lock.json", (lock) => lock.packages["node_modules/aws-cdk"].version);
const found = versionIn("node_modules/aws-cdk/package.json", (manifest) => manifest.version);

if (found !== wanted) {
  // To stderr: stdout is for the template.
  const npm = spawnSync("npm", ["ci"], {
    cwd: root,
    stdio: ["ignore", 2, 2],
    shell: process.platform === "win32",
  });
  if (npm.status !== 0) {
    console.error(`headgate: \`npm ci\` failed in ${root}, so there is no aws-cdk ${wanted} to run`);
    process.exit(1);
  }
}

require(join(root, "node_modules/aws-cdk/bin/cdk"));
